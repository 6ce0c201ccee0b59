"""The examples of a page of the documentation: run in order, compared, or rewritten as they come out now."""
from __future__ import annotations

import doctest
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import loopkit as lk

#: ``...`` stands for text that an example leaves out.
OPTIONS = doctest.ELLIPSIS


@dataclass(frozen=True)
class Page:
    """A page of ``docs/``, whose ``>>>`` examples share one set of names, in the order of the page."""

    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def check(self, names: dict[str, Any], *, update: bool = False) -> None:
        """Fail with every example that gives something else; with *update* write down what they give instead."""
        __tracebackhide__ = True
        session = {"__name__": "__main__", **names}
        test = doctest.DocTestParser().get_doctest(self.text, session, self.path.name, str(self.path), 0)
        runner = _Recorder(checker=_Checker(), optionflags=OPTIONS, verbose=False)
        said: list[str] = []
        runner.run(test, out=said.append)
        if update and runner.faults:
            pytest.fail(f"{self.path.name} has examples that fail:\n" + "\n".join(runner.faults), pytrace=False)
        if update and runner.changed:
            self.path.write_text(_rewritten(self.text, runner.changed), encoding="utf-8", newline="\n")
        elif runner.changed:
            pytest.fail("".join(said), pytrace=False)


_STACK = re.compile(r"(Traceback \(most recent call last\):\n)(?: .*\n)*")


class _Checker(doctest.OutputChecker):
    """Empty lines at the end do not count: a printed text that ends its last line leaves one."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(_trimmed(want), _trimmed(got), optionflags)


def _trimmed(text: str) -> str:
    return text.rstrip("\n") + "\n" if text else text


class _Recorder(doctest.DocTestRunner):
    """Keeps what the examples that fail give: text, or the lines of an exception.

    :ivar faults: examples that end in an exception that is not loopkit's own; none is meant to.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.changed: list[tuple[doctest.Example, str]] = []
        self.faults: list[str] = []

    def report_failure(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        super().report_failure(out, test, example, got)
        # an exception other than the expected one comes with its stack, whose paths are this machine's
        # doctest compares the last exception of a chain alone
        last = got[got.rfind("Traceback (most recent call last):"):] if got.startswith("Traceback") else got
        self.changed.append((example, _STACK.sub("\\1    ...\n", last)))

    def report_unexpected_exception(self, out: Any, test: doctest.DocTest, example: doctest.Example,
                                    exc_info: Any) -> None:
        super().report_unexpected_exception(out, test, example, exc_info)
        name = f"{type(exc_info[1]).__module__}.{type(exc_info[1]).__qualname__}"
        if not isinstance(exc_info[1], lk.LoopkitError):
            self.faults.append(f"line {example.lineno + 1}: {example.source}{name}: {exc_info[1]}")
        self.changed.append((example, f"Traceback (most recent call last):\n    ...\n{name}: {exc_info[1]}\n"))


def _rewritten(text: str, changed: list[tuple[doctest.Example, str]]) -> str:
    lines = text.splitlines()
    for example, got in reversed(changed):
        start = example.lineno + example.source.count("\n")
        stop = start + example.want.count("\n")
        indent = " " * example.indent
        # an empty line would end the example
        shown = [line or "<BLANKLINE>" for line in got.rstrip("\n").splitlines()] if got else []
        lines[start:stop] = [indent + line for line in shown]
    return "\n".join(lines) + "\n"
