"""The names of ``loopkit``: which are imported at once, which when somebody asks for them."""
from __future__ import annotations

import ast
import pickle
import pkgutil
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import loopkit as lk
from loopkit.kernel.history import TRANSFORMATIONS
from loopkit.lazy import LazyTable
from loopkit.runtime.calls import Runner

TREE = ast.parse(Path(lk.__file__).read_text(encoding="utf-8"))
#: What is under ``if TYPE_CHECKING``.
CHECKED = next(node for node in TREE.body if isinstance(node, ast.If)).body
#: What users ask for later, if at all.
LATER_FLOORS = ("transform", "lowering", "target", "verification", "runtime", "show", "library", "command")


def imported(nodes: list[ast.stmt]) -> dict[str, str]:
    """The names that ``from loopkit... import name`` lines import, with their addresses."""
    return {alias.name: f"{node.module}.{alias.name}" if node.module == "loopkit" else f"{node.module}:{alias.name}"
            for node in nodes if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("loopkit")
            for alias in node.names}


def test_type_checkers_know_the_same_names() -> None:
    assert imported(CHECKED) == lk._LATER.addresses


def test_all_lists_each_public_name() -> None:
    names = {*imported(TREE.body), *imported(CHECKED)} - {
        "ENTRY_POINTS", "LazyTable", "TARGETS", "TRANSFORMATIONS", "imports_not_run", "no_attribute"}
    assert names == set(lk.__all__)
    assert list(lk.__all__) == sorted(lk.__all__)
    assert set(lk.__all__) <= set(dir(lk))


def test_a_module_and_a_name_are_called_differently() -> None:
    """The import of a module sets its package's attribute."""
    assert {m.name for m in pkgutil.iter_modules(lk.__path__)} & set(lk.__all__) == {"library"}


def test_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'loopkit' has no attribute 'splitt_iname'"):
        lk.splitt_iname  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'splitt_iname'"):
        from loopkit import splitt_iname  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("table", [lk.ENTRY_POINTS, lk.TARGETS, TRANSFORMATIONS])
def test_each_address_holds_a_value(table: LazyTable[object]) -> None:
    for name, address in table.addresses.items():
        assert pkgutil.resolve_name(address) is table[name]


def test_targets_are_known_by_their_names() -> None:
    assert {name: cls.name for name, cls in lk.TARGETS.items()} == {
        "c": "c", "cuda": "cuda", "opencl": "opencl"}
    for cls in lk.TARGETS.values():
        assert issubclass(pkgutil.resolve_name(cls.runner or ""), Runner)


def of_a_new_process(code: str, given: bytes = b"") -> bytes:
    return subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=True).stdout


def test_only_what_making_a_kernel_needs_is_imported_at_once() -> None:
    listed = of_a_new_process("import loopkit, sys; print(*(m for m in sys.modules if m.startswith('loopkit.')))")
    packages = {module.split(".")[1] for module in listed.decode().split()}
    assert {"kernel", "language"} <= packages
    assert not packages & set(LATER_FLOORS)


def test_no_source_is_needed(tmp_path: Path) -> None:
    package = shutil.copytree(Path(lk.__file__).parent, tmp_path / "loopkit",
                              ignore=shutil.ignore_patterns("__pycache__"))
    py_compile.compile(str(package / "__init__.py"), str(package / "__init__.pyc"))
    (package / "__init__.py").unlink()
    code = f"""import sys; sys.path.insert(0, {str(tmp_path)!r})
import loopkit as lk; print(lk.__file__, lk.tile.__name__)"""
    assert of_a_new_process(code).decode().split() == [str(package / "__init__.pyc"), "tile"]


def test_a_star_imports_all() -> None:
    names = of_a_new_process("from loopkit import *; print(*dir())").decode().split()
    assert set(lk.__all__) <= set(names)


def test_a_kernel_in_another_process() -> None:
    """Its history is replayed, printed and lowered by what nobody has imported there."""
    knl = lk.tag_inames(lk.split_iname(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), "i", 16), "i_inner:l.0")
    code = """import pickle, sys
knl = pickle.load(sys.stdin.buffer)
plain = eval(knl.history.script().splitlines()[2].removeprefix("knl = "), {"lk": sys.modules["loopkit"]})
again = knl.history.replay(plain)
print(again == knl, str(again) == str(knl))"""
    assert of_a_new_process(code, pickle.dumps(knl)).decode().split() == ["True", "True"]
