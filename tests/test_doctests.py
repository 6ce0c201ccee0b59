"""The examples in the docstrings, module by module, with ``lk`` and ``np`` at hand."""
from __future__ import annotations

import doctest
import importlib
import linecache
import pkgutil

import numpy as np
import pytest

import loopkit as lk

MODULES = ["loopkit", *(m.name for m in pkgutil.walk_packages(lk.__path__, "loopkit."))]


def test_modules_are_found() -> None:
    assert {"loopkit.errors", "loopkit.poly.sets", "loopkit.kernel.kernel"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # each docstring starts a debugger, which would look whether any of a thousand files has changed
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name, extraglobs={"lk": lk, "np": np}):
        runner.run(example, out=said.append)
    if runner.failures:
        pytest.fail("".join(said), pytrace=False)
