"""Which lines and branches of loopkit each test reaches, to choose the marks ``deep``. For Python 3.12 or newer.

``LOOPKIT_DEEP=1 python -m pytest -n auto -p tests.reached --reached=DIRECTORY`` writes them into files there. Then
``python -m tests.reached DIRECTORY`` lists what deep tests alone reach, and the slow tests that need no place in the
default suite, as others reach all that they do.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import pytest

from tests.conftest import left_out

#: The sources whose lines and branches count.
SOURCES = f"{Path(__file__).parents[1] / 'loopkit'}{os.sep}"

#: A test below so many seconds of processor time is not worth a mark.
SLOW = 0.3


class Reached(NamedTuple):
    """A test, its seconds of processor time, whether it is deep, and the numbers of the places that it reaches."""

    name: str
    seconds: float
    deep: bool
    places: Sequence[int]


# The plugin

class Recorder:
    """Records the first time that a test reaches each line and each end of a branch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.numbers: dict[str, int] = {}
        self.tests: list[Reached] = []
        self.now: set[int] = set()
        self.ends: dict[tuple[CodeType, int], int] = {}
        self.deep: set[pytest.Item] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.deep = left_out(session.items)
        monitoring = sys.monitoring                                             # type: ignore[attr-defined]
        tool, events = monitoring.COVERAGE_ID, monitoring.events
        monitoring.use_tool_id(tool, "reached")
        monitoring.register_callback(tool, events.LINE, self.line)
        monitoring.register_callback(tool, events.BRANCH, self.branch)
        monitoring.set_events(tool, events.LINE | events.BRANCH)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.now, self.ends = set(), {}
        sys.monitoring.restart_events()                                         # type: ignore[attr-defined]
        before = os.times()
        yield
        seconds = sum(os.times()[:4]) - sum(before[:4])
        self.tests.append(Reached(item.nodeid, seconds, item in self.deep, sorted(self.now)))

    def pytest_sessionfinish(self) -> None:
        monitoring = sys.monitoring                                             # type: ignore[attr-defined]
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
        text = json.dumps([list(self.numbers), self.tests])
        (self.directory / f"{os.getpid()}.json").write_text(text, encoding="utf-8")

    def line(self, code: CodeType, number: int) -> object:
        return self.place(code, f":{number}")

    def branch(self, code: CodeType, start: int, end: int) -> object:
        first = self.ends.setdefault((code, start), end)
        off = self.place(code, f" {code.co_qualname} {code.co_firstlineno}: branch {start} to {end}")
        return off if end != first or not code.co_filename.startswith(SOURCES) else None

    def place(self, code: CodeType, text: str) -> object:
        if code.co_filename.startswith(SOURCES):
            name = code.co_filename.removeprefix(SOURCES) + text
            self.now.add(self.numbers.setdefault(name, len(self.numbers)))
        return sys.monitoring.DISABLE                                           # type: ignore[attr-defined]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--reached", type=Path, help="write what each test reaches into files in this directory")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        directory = config.getoption("--reached")
        directory.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(Recorder(directory))


def read(directory: Path) -> Iterator[tuple[Reached, frozenset[str]]]:
    for file in sorted(directory.glob("*.json")):
        names, tests = json.loads(file.read_text(encoding="utf-8"))
        for test in tests:
            reached = Reached(*test)
            yield reached, frozenset(names[i] for i in reached.places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    tests: list[tuple[Reached, Any]] = list(read(parser.parse_args().directory))
    by_default = Counter(place for test, places in tests if not test.deep for place in places)
    alone = sorted({place for test, places in tests if test.deep for place in places} - by_default.keys())
    print(f"{len(by_default)} places are reached by default, {len(alone)} by deep tests alone", *alone, sep="\n  ")
    print("tests that reach no place alone, the slowest first, each in the absence of those before it:")
    for test, places in sorted(tests, key=lambda t: -t[0].seconds):
        if not test.deep and test.seconds > SLOW and all(by_default[place] > 1 for place in places):
            by_default.subtract(places)
            print(f"  {test.seconds:6.2f} s  {test.name}")


if __name__ == "__main__":
    main()
