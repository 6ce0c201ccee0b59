"""What the tests on a GPU share: without one, they skip and say why."""
from __future__ import annotations

import pytest

from loopkit.runtime.cuda.devices import why_not

_MISSING = why_not()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if _MISSING is not None:
        for item in items:
            if "tests/gpu/" in item.nodeid or "gpu" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=_MISSING.message))
