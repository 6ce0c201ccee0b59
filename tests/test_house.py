"""The rules of the package: which layer may import which, and how long files and functions may be.

    lazy > shown > errors > poly > expr > ast > kernel > instructions > analysis > language > transform > lowering
    > target > verification > runtime > (library, interpreter) > emulation > show > command > compat

A package imports from those before it, never from those after it; packages in one bracket do not import each other.
"""
from __future__ import annotations

import ast
import graphlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import loopkit as lk

ROOT = Path(__file__).parents[1]

#: From the lowest layer up; packages in one tuple are in one layer.
LAYERS = (("lazy",), ("shown",), ("errors",), ("poly",), ("expr",), ("ast",), ("kernel",), ("instructions",),
          ("analysis",), ("language",), ("transform",), ("lowering",), ("target",), ("verification",), ("runtime",),
          ("library", "interpreter"), ("emulation",), ("show",), ("command",), ("compat",))
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}

#: Import names, which for these packages are their names on the package index.
BASE_DEPENDENCIES = {Requirement(text).name for text in
                     tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]}

MOST_LINES_OF_A_FILE = 450
MOST_LINES_OF_A_FUNCTION = 70


@dataclass(frozen=True)
class Import:
    """One imported module (or one name of it) and where that is said."""

    target: str
    line: int
    in_function: bool


@dataclass(frozen=True)
class Module:
    """One file of the package.

    :ivar name: dotted.
    """

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        return tuple(ast.walk(self.tree))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def layer(self) -> str:
        """The package that it belongs to: the second part of its name."""
        return self.name.split(".")[1]

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(self._imports(self.tree, in_function=False))

    def _imports(self, node: ast.AST, *, in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Import(names=names):
                    yield from (Import(alias.name, child.lineno, in_function) for alias in names)
                case ast.ImportFrom(names=names):
                    base = self._absolute(child)
                    yield from (Import(f"{base}.{alias.name}", child.lineno, in_function) for alias in names)
                case ast.Call(func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"),
                              args=[ast.Constant(value=str(name)), *_]):
                    yield Import(name, child.lineno, in_function)
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from self._imports(child, in_function=in_function or inside)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        package = parts[:len(parts) - node.level + self.is_package]
        return ".".join([*package, *([node.module] if node.module else [])])


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {m.name: m for m in (Module(_module_name(p), p) for p in sorted((ROOT / "loopkit").rglob("*.py")))}

#: These are on the roof and may import from every layer.
ROOF = ("loopkit", "loopkit.__main__")
LAYER_MODULES = [m for m in MODULES.values() if m.name not in ROOF]


def _own(target: str) -> str | None:
    """The module of ours that *target* (a module, or a name in one) stands for."""
    if target.split(".")[0] != "loopkit":
        return None
    while target not in MODULES:
        target = target.rpartition(".")[0]
    return target


def _at(module: Module, line: int) -> str:
    return f"{module.path.relative_to(ROOT)}:{line}"


def each_module(rule: Callable[[Module], Iterable[str]]) -> Callable[[], None]:
    """The test that no place of any module breaks *rule*, which yields the places of one module that do."""
    def test() -> None:
        wrong = [place for module in MODULES.values() for place in rule(module)]
        assert not wrong, "\n".join(wrong)
    test.__name__, test.__doc__ = rule.__name__, rule.__doc__
    return test


def test_every_package_has_a_floor() -> None:
    assert {m.layer for m in LAYER_MODULES} <= HEIGHT.keys()


@each_module
def test_imports_go_down_only(module: Module) -> Iterator[str]:
    if module.name in ROOF:
        return
    here = HEIGHT[module.layer]
    for i in module.imports:
        own = _own(i.target)
        if own == "loopkit" and module.layer in ("library", "compat"):
            continue                                            # their functions are written as a user writes them
        if own in ROOF:
            yield f"{_at(module, i.line)} imports {own}, which is above every layer"
        elif own is not None:
            other = MODULES[own].layer
            if other != module.layer and HEIGHT[other] >= here:
                yield f"{_at(module, i.line)} imports {own}: {other} is not below {module.layer}"


def test_no_import_cycles_between_modules() -> None:
    """``loopkit`` itself is left out: it imports the others last, or at their first use."""
    graph = {m.name: {own for i in m.imports if (own := _own(i.target)) and own != m.name} for m in LAYER_MODULES}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as err:
        pytest.fail(" -> ".join(err.args[1]))


@each_module
def test_no_module_of_ours_is_imported_in_a_function(module: Module) -> list[str]:
    return [_at(module, i.line) for i in module.imports if i.in_function and _own(i.target)]


@each_module
def test_only_poly_imports_islpy(module: Module) -> list[str]:
    return [_at(module, i.line) for i in module.imports
            if i.target.split(".")[0] == "islpy" and not module.name.startswith("loopkit.poly")]


def test_only_the_library_takes_the_length_of_a_warp_from_the_table() -> None:
    """Other modules get it from their target; the library's pipelines are made for it."""
    takers = {m.name for m in MODULES.values() if any(i.target == "loopkit.kernel.target.WARP" for i in m.imports)}
    assert not [name for name in takers if not name.startswith("loopkit.library.")]


#: The words by which each hardware instruction is named, and the modules that may: its file, the table of instructions,
#: its transformation, the pass that finds where it serves, and its check. All others ask an instruction what it does.
INSTRUCTIONS = {
    "asynchronous_copy": (r"[Aa]synchronous_?[Cc]op(y|ies)|cp\.async\.c[ag]|copy_async", (
        "transform.engines", "transform.pipelining")),
    "groups": (r"CommitGroup|WaitGroup|end_(copy|product|store)_group|wait_for_(copies|products|stores)|\bpending\(", (
        "lowering.groups", "lowering.barriers", "lowering.waits", "verification.races",
        "verification.validation_tiles")),
    "atomic_update": (r"AtomicUpdate|atomic_update|atomic[A-Z]\w+\(&", (
        "transform.synchronization", "transform.buffering", "target.c.target", "language.multiple")),
    "block_flag": (r"BlockFlag|(?<!add_)block_flag\b", (
        "transform.synchronization", "target.cuda.target")),
    "nests": (r"NestInstruction|\bIssue\b|nest_instruction|InstructionTag", (
        "kernel.tags", "transform.tags", "transform.tensorize", "lowering.nests", "lowering.nest_data",
        "lowering.pipeline", "verification.validation_nests",
        "verification.validation_walk", "verification.validation_instructions", "verification.validation_order",
        "runtime.precision", "instructions.wgmma", "instructions.shared_matrices", "instructions.products",
        "instructions.mma", "instructions.matrix_moves", "instructions.boxes", "transform.boxes",
        "transform.matrix_moves", "transform.nest_loops", "show.warp_access")),
    "phases": (r"StartPhases|WaitPhase|ArrivePhase|start_phases|wait_for_phase", (
        "transform.warps", "lowering.barriers", "lowering.phases", "lowering.program", "lowering.waits",
        "verification.phases",
        "verification.races", "verification.validation", "verification.validation_instances",
        "verification.validation_precedence", "verification.validation_tiles", "verification.validation_clusters",
        "instructions.turns")),
    "turns": (r"instructions\.turns|begin_turn|end_turn|start_turns", (
        "transform.warps", "lowering.turns", "verification.turns")),
    "boxes": (r"BoxCopy|BoxIssue|TmaBox", (
        "instructions.tma", "instructions.tma_multicast", "instructions.tma_store", "transform.boxes",
        "transform.tensorize")),
    "tma": (r"TmaLoad|tma\.load|load_box", (
        "transform.tensorize", "transform.engines", "transform.warps", "transform.clusters", "lowering.phases",
        "verification.validation_clusters", "instructions.tma_multicast")),
    "tma_multicast": (r"TmaMulticast|load_share", (
        "transform.clusters", "verification.validation_clusters")),
    "tma_store": (r"TmaStore|tma\.store|store_box", (
        "transform.tensorize", "transform.engines")),
    "mma": (r"\b[Mm]ma\b|MmaIssue", (
        "transform.tensorize",)),
    "wgmma": (r"\b[Ww]gmma(?!\.(fence|commit|wait))\b|WgmmaIssue|matrix_(at|in_cluster)", (
        "transform.tensorize",)),
    "shared_matrices": (r"SharedMatrix|MatrixLayout", (
        "instructions.wgmma",)),
    "fences": (r"ProxyFence|RegisterFence|proxy_fence|register_fence", ("lowering.groups",)),
    "ldmatrix": (r"\b[Ll]d[Mm]atrix\b|LdMatrixIssue", (
        "instructions.matrix_moves", "transform.matrix_moves", "transform.tensorize")),
    "stmatrix": (r"\b[Ss]t[Mm]atrix\b|StMatrixIssue", (
        "instructions.matrix_moves", "transform.matrix_moves", "transform.tensorize")),
    "matrix_moves": (r"MatrixMove", (
        "instructions.ldmatrix", "instructions.stmatrix", "transform.matrix_moves", "transform.tensorize")),
    "shuffle": (r"\bShuffle\b|shfl|by_shuffles|\bshuffles?\b", (
        "transform.scan", "lowering.shuffles", "lowering.reductions",
        "verification.validation_instructions", "verification.validation_butterflies",
        "target.cuda.target", "target.opencl.dialect")),
    "simd_loop": (r"Simd(Loop|Tag)|simd_loop", (
        "kernel.tags", "lowering.vectors", "target.c.target", "verification.validation_instructions",
        "verification.validation_simd")),
    "vector_access": (r"VectorAccess|vector_access|vectors_of|VecTag", (
        "instructions.boxes", "transform.boxes", "transform.engines", "verification.validation_nests",
        "kernel.tags", "transform.tags", "transform.tensorize", "transform.matrix_moves", "lowering.vectors",
        "lowering.vector_elements", "transform.clusters",
        "verification.validation_instructions", "verification.validation_copies",
        "instructions.asynchronous_copy")),
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_is_named_where_it_belongs(name: str) -> None:
    """What all others need of an instruction they ask of :class:`loopkit.ast.nodes.Instruction`."""
    words, others = INSTRUCTIONS[name]
    allowed = {f"loopkit.{m}" for m in (f"instructions.{name}", "instructions.table", *others)}
    apart = ("loopkit.library.", "loopkit.compat.", "loopkit.emulation.")
    named = {m.name for m in LAYER_MODULES if not m.name.startswith(apart) and re.search(words, m.text)}
    assert sorted(named - allowed) == []
    assert sorted(m for m in allowed - named if not m.startswith("loopkit.instructions.")) == [], "no longer named"


def _pattern_classes(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.MatchClass | ast.Name):
            name = inner.cls if isinstance(inner, ast.MatchClass) else inner
            if isinstance(name, ast.Name):
                yield name.id


@each_module
def test_no_module_asks_which_target_it_has(module: Module) -> Iterator[str]:
    """A target is asked for what it has; only a user's text is compared with names, where it becomes a target."""
    names, classes = set(lk.kernel.target.TARGETS), {cls.__name__ for cls in lk.kernel.target.TARGETS.values()}
    for node in module.nodes:
        match node:
            case ast.Compare(left=left, comparators=right):
                sides = [left, *right]
                told = any(isinstance(x, ast.Constant) and x.value in names for x in sides)
                asked = any((isinstance(x, ast.Attribute) and x.attr in ("name", "target"))
                            or (isinstance(x, ast.Name) and x.id == "target") for x in sides)
                if told and asked:
                    yield _at(module, node.lineno)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, cls]):
                yield from (_at(module, node.lineno) for name in _pattern_classes(cls) if name in classes)
            case ast.match_case(pattern=pattern):
                yield from (_at(module, pattern.lineno) for name in _pattern_classes(pattern) if name in classes)


#: All of lowering that a module of verification may reach, by its imports and by theirs: the data that is checked,
#: with the nests of loops in it, and the types of names.
CHECKED = {f"loopkit.lowering.{name}" for name in ("lowered", "nest_data", "scheduled", "stored", "types")}

#: The check of races asks for what must wait, and what a wait covers, too, as relations that barriers are placed by.
#: The checks of a kernel lower it, and reach everything.
ALSO_REACHED = {"loopkit.verification.races": {f"loopkit.lowering.{x}" for x in ("block_values", "hazards", "waits")},
                "loopkit.verification.checks": {name for name in MODULES if name.startswith("loopkit.lowering.")}}


@each_module
def test_verification_knows_nothing_of_how_code_is_made(module: Module) -> Iterator[str]:
    if module.name.startswith("loopkit.verification."):
        own = {name for name in _reached(module.name) if name.startswith("loopkit.lowering")}
        yield from (f"{module.name} reaches {x}" for x in own - CHECKED - ALSO_REACHED.get(module.name, set()))


def _reached(root: str) -> set[str]:
    """*root*, the modules that it imports, and those that they import."""
    seen: set[str] = set()
    ahead = {root}
    while ahead:
        module = MODULES[ahead.pop()]
        seen.add(module.name)
        ahead |= {own for i in module.imports if (own := _own(i.target))} - seen
    return seen


@each_module
def test_optional_packages_are_imported_where_they_are_used(module: Module) -> list[str]:
    """``import loopkit`` needs what is always installed and nothing else; pytest imports its plugin itself."""
    known = {"loopkit", *BASE_DEPENDENCIES, *sys.stdlib_module_names}
    known |= {"pytest"} if module.name == "loopkit.show.pytest_plugin" else set()
    return [f"{_at(module, i.line)}: {i.target}" for i in module.imports
            if not i.in_function and i.target.split(".")[0] not in known]


#: It runs a user's file, whose exceptions are the user's, and raises them again as one of its own.
RUNS_FILES = ("loopkit.command.load",)


@each_module
def test_exceptions_are_caught_by_name(module: Module) -> Iterator[str]:
    broad = {"Exception", "BaseException"} if module.name not in RUNS_FILES else set()
    for node in module.nodes:
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(c is None or (isinstance(c, ast.Name) and c.id in broad) for c in caught):
                yield _at(module, node.lineno)


#: They ask what others made, and only there does an error of Python's own mean no: isl, numpy, arrays of other
#: libraries, the numbers of a call, and what a user's operation does with numbers.
ASKS_OTHERS = ("loopkit.poly.limits", "loopkit.expr.kinds", "loopkit.runtime.kinds", "loopkit.runtime.cuda.kinds",
               "loopkit.runtime.scalars", "loopkit.expr.operations")


@each_module
def test_errors_of_pythons_own_decide_nothing(module: Module) -> list[str]:
    """Nothing of ours is tried to find out by a KeyError whether it will do."""
    if module.name in ASKS_OTHERS:
        return []
    return [_at(module, node.lineno) for node in module.nodes
            if isinstance(node, ast.ExceptHandler) and node.type is not None
            and any(isinstance(name, ast.Name) and name.id in ("KeyError", "AttributeError", "TypeError")
                    for name in ast.walk(node.type))]


@each_module
def test_a_file_is_one_thought(module: Module) -> list[str]:
    return [module.name] if len(module.text.splitlines()) > MOST_LINES_OF_A_FILE else []


@each_module
def test_a_function_is_one_step(module: Module) -> list[str]:
    return [_at(module, node.lineno) for node in module.nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or node.lineno) - node.lineno + 1 > MOST_LINES_OF_A_FUNCTION]


def test_a_name_has_one_meaning() -> None:
    """No two modules define classes, or private functions, of one name; ``compat`` has others' names."""
    found: dict[str, list[str]] = {}
    for module in (m for m in MODULES.values() if not m.name.startswith("loopkit.compat.")):
        for node in (node for node in module.tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)):
            if isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                found.setdefault(node.name, []).append(module.name)
    assert not {name: own for name, own in found.items() if len(own) > 1}


@each_module
def test_a_package_file_defines_nothing(module: Module) -> list[str]:
    """``__init__.py`` has a docstring, imports, and (the topmost one) names for what it imports now or later."""
    if not module.is_package:
        return []
    allowed = (ast.Import, ast.ImportFrom)
    if module.name == "loopkit":
        allowed = (*allowed, ast.Assign, ast.AnnAssign, ast.Expr, ast.If)
    wrong = [] if ast.get_docstring(module.tree) else [f"{module.name} has no docstring"]
    return wrong + [_at(module, node.lineno) for node in module.tree.body[1:] if not isinstance(node, allowed)]
