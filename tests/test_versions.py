"""The environment under test is one that pyproject.toml allows."""
from __future__ import annotations

import importlib.metadata
import platform
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import loopkit as lk

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPENDENCIES = [Requirement(text) for text in PROJECT["dependencies"]]


@pytest.mark.parametrize("requirement", DEPENDENCIES, ids=lambda r: r.name)
def test_installed_version_is_within_the_bounds(requirement: Requirement) -> None:
    assert requirement.specifier.contains(importlib.metadata.version(requirement.name))


@pytest.mark.parametrize("requirement", DEPENDENCIES, ids=lambda r: r.name)
def test_dependencies_are_bounded_on_both_sides(requirement: Requirement) -> None:
    assert {s.operator for s in requirement.specifier} == {">=", "<"}


def test_python_is_new_enough() -> None:
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(platform.python_version())


def test_the_version_is_the_same_everywhere() -> None:
    assert lk.__version__ == PROJECT["version"]
