"""The plugin of pytest that gives ``--update-golden`` to tests with :func:`loopkit.assert_golden`."""
from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from loopkit.show.golden import UPDATE


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Iterator[None]:
    """Add the option, after all plugins and conftest files, unless one of them has it."""
    yield
    try:
        parser.addoption("--update-golden", action="store_true",
                         help="rewrite the golden files of generated code instead of comparing with them")
    except ValueError:
        return                                          # the option exists and serves both


def pytest_configure(config: pytest.Config) -> None:
    """Ask for new files in this run."""
    if config.getoption("--update-golden", default=False):
        os.environ[UPDATE] = "1"


def pytest_unconfigure() -> None:
    """Let a later run in this process compare again."""
    os.environ.pop(UPDATE, None)
