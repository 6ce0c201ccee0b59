"""Fixtures of the tests on a GPU: without one, the tests skip and name the reason."""
from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.runtime.cuda.devices import why_not

_MISSING = why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _MISSING is not None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=_MISSING.message))
