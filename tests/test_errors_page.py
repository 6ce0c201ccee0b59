"""The page of errors: each error and warning has its wrong call, the message that this call gives, and the right call.

``test_docs.py`` runs the examples.
"""
from __future__ import annotations

import re
from doctest import DocTestParser
from pathlib import Path

import pytest

import loopkit as lk

PAGE = (Path(__file__).parents[1] / "docs" / "errors.rst").read_text(encoding="utf-8")
CLASSES = [name for name in lk.__all__ if isinstance(value := getattr(lk, name), type)
           and issubclass(value, lk.LoopkitError | lk.LoopkitWarning)]
#: Only their subclasses are raised.
BASES = {"LoopkitError", "LoopkitWarning"}
#: Needs a GPU: tests/runtime/cuda compares its text.
NOT_RUN = {"LaunchError"}


def entries() -> dict[str, str]:
    """The text of the page from each class to the next one."""
    _, *parts = re.split(r"^\.\. autoexception:: loopkit\.(\S+)\n", PAGE, flags=re.MULTILINE)
    names = parts[::2]
    assert len(names) == len(set(names)), "a class has two places"
    return dict(zip(names, parts[1::2], strict=True))


def test_every_class_has_its_place() -> None:
    assert {"ParseError", "LaunchError", "UnusedInameWarning"} <= set(CLASSES)
    assert set(entries()) == {*CLASSES, "errors.InternalError"}


@pytest.mark.parametrize("name", [name for name in CLASSES if name not in BASES])
def test_the_wrong_call_and_then_the_right_one(name: str) -> None:
    text = entries()[name]
    examples = DocTestParser().get_examples(text)
    wrong = [i for i, example in enumerate(examples) if name in raised_or_warned(example.exc_msg or example.want)]
    if name in NOT_RUN:
        assert f"   {name}: " in text
    else:
        assert wrong, f"no example raises {name}"
    right = examples[max(wrong, default=-1) + 1:]
    assert right, f"no example shows the right call that avoids {name}"
    assert not [example.source for example in right if example.exc_msg]


def raised_or_warned(message: str) -> list[str]:
    return re.findall(r"^(?:loopkit\.errors\.)?(\w+(?:Error|Warning)): ", message)
