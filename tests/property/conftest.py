"""Fixtures of the property tests: counts of outcomes, and a cache of their own."""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.property.checks import COUNTS


@pytest.fixture(autouse=True)
def _counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Counts of each part into the file that the environment names."""
    COUNTS.clear()
    yield
    if COUNTS and "LOOPKIT_PROPERTY_COUNTS" in os.environ:
        with Path(os.environ["LOOPKIT_PROPERTY_COUNTS"]).open("a") as file:
            file.write(json.dumps({"test": request.node.name, **COUNTS}) + "\n")


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOPKIT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
