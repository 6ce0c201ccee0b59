"""Fixtures and options of all tests: golden files and hypothesis' profiles."""
from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from loopkit.runtime import compiler
from tests.deep import DEEP, some
from tests.golden_files import GoldenFiles

# the same examples in each run, on machines of any speed; --hypothesis-profile=search looks for new ones
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, database=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile("ci")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true",
                     help="rewrite the files in tests/golden/ instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Look for garbage only where a test asks for it. PoCL keeps its binaries of this run only."""
    gc.disable()
    folder = TemporaryDirectory(prefix="loopkit-pocl-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    os.environ["POCL_CACHE_DIR"] = folder.name


def pytest_collection_finish() -> None:
    """Never look through the modules and the collected tests again."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Nor through what the tests left, as pytest does at the end: that takes seconds."""
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of tests marked ``deep``, but of what is asked for by name."""
    if DEEP or config.option.keyword or any("::" in argument for argument in config.args):
        return
    deep = left_out(items)
    items[:] = [item for item in items if item not in deep]
    config.hook.pytest_deselected(items=list(deep))


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Those of *items* that run in deep runs only."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    deep = set[pytest.Item]()
    for family in families.values():
        marked = [item for item in family if item.get_closest_marker("deep") is not None]     # all cases, or some
        deep.update(marked)
        marker = marked[0].get_closest_marker("deep") if marked else None
        if marker is not None and "every" in marker.kwargs:
            deep.difference_update(some(marked, marker.kwargs["every"], lambda item: item.nodeid))
    return deep


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> GoldenFiles:
    """``golden.check(name, text)`` compares *text* with ``tests/golden/<name>``."""
    return GoldenFiles(Path(__file__).parent / "golden", update=pytestconfig.getoption("--update-golden"))


@pytest.fixture(autouse=True, scope="module")
def _quick_compiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """C is compiled with ``-O0``, in deep runs with ``-O1``, which takes twice the time, and as for users in modules
    marked ``optimised``, where it takes six times that."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("optimised") is None:
            patch.setattr(compiler, "SAFE", compiler.SAFE[-2 if DEEP else -1:])
        yield
