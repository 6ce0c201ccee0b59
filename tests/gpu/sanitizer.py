"""A second opinion from NVIDIA's tools: nothing in the golden kernels, and faults that were put into them.

    python -m tests.gpu.sanitizer                 every tool, about ten minutes
    python -m tests.gpu.sanitizer --tool memcheck one of them
    python -m tests.gpu.sanitizer --most 20       at most 20 faults a tool

Each tool watches one process that runs every golden kernel as it is, and then with one fault after the other, each
under a name of its own, by which the tool's reports are counted. A fault that the tool does not report is looked at
by its results. Where a fault makes the process hang or die, that is noted, and another process takes the next one.
"""
from __future__ import annotations

import argparse
import os
import queue
import random
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pymbolic.primitives as p

import loopkit as lk
from loopkit.analysis.constructors import annotated
from loopkit.ast.nodes import Assign, Block, For, Function, If, Node, Program, Region, Sync
from loopkit.expr.kinds import named_dtype
from loopkit.kernel.target import Machine
from loopkit.lowering import pipeline
from loopkit.lowering.lowered import Lowered
from loopkit.runtime.cuda.devices import find_gpu
from tests.cases import CASES, Case
from tests.cluster_kernels import product as product_in_clusters
from tests.cluster_kernels import rows as rows_in_clusters
from tests.library.test_attention import result_of
from tests.library.test_convolution import data as images
from tests.library.test_convolution import expected as result_of_images
from tests.matrix_stores import product as product_by_stmatrix
from tests.tma_kernels import doubled, rowsum, summed
from tests.verification.faults import Fault, faults
from tests.warpgroup_kernels import data_of_products, product_of_products, result_of_products

BF16 = named_dtype("bfloat16")


def _product(name: str, sizes: Sequence[tuple[int, ...]], make: Callable[[], lk.LoopKernel] | None = None,
             **how: Any) -> Case:
    """A product by warpgroups of small integers."""
    def data(rng: np.random.Generator, n: int, m: int, length: int) -> dict[str, np.ndarray]:
        return {x: rng.integers(-4, 5, shape).astype(BF16) for x, shape in (("a", (n, length)), ("b", (length, m)))}
    return Case(name, make or (lambda: lk.library.matmul(BF16, wgmma=True, tile=(64, 64, 64), **how)), data,
                lambda given: {"c": given["a"].astype(float) @ given["b"].astype(float)}, sizes, BF16)


#: Kernels that need a Hopper GPU, beside the golden kernels.
HOPPER = [
    Case("rowsum_by_tma", lambda: rowsum(3), lambda rng, n, m: {"a": rng.random((n, m), np.float32)},
         lambda given: {"s": given["a"].sum(axis=1)}, [(65, 36), (200, 316)]),
    Case("doubled_by_tma", lambda: doubled(3), lambda rng, n, m: {"x": rng.random((n, m), np.float32)},
         lambda given: {"y": 2*given["x"]}, [(61, 20), (8, 32)]),
    _product("matmul_by_warpgroups", [(72, 136, 200)]), _product("matmul_of_odd_rows", [(67, 71, 133)], whole=True),
    _product("matmul_by_persistent_blocks", [(200, 200, 264)], shape=(200, 200, 264), multiprocessors=3),
    _product("matmul_from_registers", [(72, 136, 200)], store="registers"),
    _product("matmul_in_clusters", [(128, 136, 200)], product_in_clusters),
    _product("matmul_in_persistent_clusters", [(384, 136, 200)], lambda: product_in_clusters(2, persistent=4)),
    Case("rows_in_clusters", lambda: lk.cluster(rows_in_clusters(4), "of_cluster", 4),
         lambda rng, n, m: {x: rng.integers(-4, 5, (rows, m)).astype(np.float32) for x, rows in (("a", n), ("b", 64))},
         lambda given: {"s": (given["a"]*np.tile(given["b"], (5, 1))[:len(given["a"])]).sum(axis=1)}, [(300, 132)]),
    Case("attention", lambda: lk.library.attention(head=64, mask="causal", rows=128, keys=64),
         lambda rng, n: {x: rng.standard_normal((1, 2, n, 64)).astype(BF16) for x in "qkv"},
         lambda given: {"o": result_of(**given, mask="causal")}, [(140,)], BF16),
    Case("conv2d", lambda: lk.library.conv2d(padding=1, stride=2, tile=(1, 8, 8, 64)),
         lambda rng, n, m: dict(zip("xw", images((2, n, m, 72, 40)), strict=True)),
         lambda given: {"y": result_of_images(**given, stride=2, padding=1)}, [(13, 17)], BF16),
    Case("sums_by_tma", summed,
         lambda rng, length, n, m: {"a": rng.integers(-9, 10, (length, n, m)).astype(np.float32),
                                    "c": np.zeros((n, m), np.float32)},
         lambda given: {"c": given["c"] + given["a"].sum(axis=0)}, [(5, 11, 44)]),
    Case("product_by_stmatrix", lambda: product_by_stmatrix(swizzle=64, edges=True),
         lambda rng, n, m: {x: rng.integers(-4, 5, shape).astype(BF16)
                            for x, shape in (("a", (n, 16)), ("b", (16, m)))},
         lambda given: {"c": given["a"].astype(float) @ given["b"].astype(float)}, [(19, 72)], BF16),
    Case("product_of_products", product_of_products, lambda rng: data_of_products(int(rng.integers(100)))[0],
         lambda given: {"c": result_of_products(given)}, [()])]

#: The faults that a tool is made for; of the others it knows nothing.
KINDS = {"racecheck": ("barrier deleted",), "memcheck": ("index shifted", "bound weakened", "guard weakened"),
         "synccheck": ("barrier divergent",), "initcheck": ("write deleted",)}
MARK = "fault"


# Faults that only a run shows

def divergent(program: Program) -> Iterator[Fault]:
    """Each barrier under a condition that only the lower half of the threads along the first axis meet."""
    for number, function in enumerate(program.functions):
        extent = function.extents.get("l.0", 1)
        assert isinstance(extent, int)
        half = p.Comparison(p.Variable("l.0"), "<", extent//2)
        for body in _changed(function.body, Sync, lambda node, half=half: If(half, Block((node,)))):
            yield Fault("barrier divergent", function.name, _with(program, number, replace(function, body=body)))


def unwritten(program: Program, names: frozenset[str]) -> Iterator[Fault]:
    """Each write of a temporary in global memory left out; *names* are those."""
    for number, function in enumerate(program.functions):
        for body in _changed(function.body, Assign, lambda node: Block(), lambda node: _written(node) in names):
            yield Fault("write deleted", function.name, _with(program, number, replace(function, body=body)))


def _written(node: Assign) -> str:
    target = node.target.aggregate if isinstance(node.target, p.Subscript) else node.target
    return str(target)


def _with(program: Program, number: int, function: Function) -> Program:
    return replace(program, functions=(*program.functions[:number], function, *program.functions[number + 1:]))


def _changed(block: Block, kind: type, change: Callable[[Any], Node], which: Callable[[Any], bool] = lambda node: True
             ) -> Iterator[Block]:
    """*block* with one of its nodes of a *kind* changed."""
    nodes = block.children
    for i, node in enumerate(nodes):
        for new in _changes(node, kind, change, which):
            yield replace(block, children=(*nodes[:i], new, *nodes[i + 1:]))


def _changes(node: Node, kind: type, change: Callable[[Any], Node], which: Callable[[Any], bool]) -> Iterator[Node]:
    if isinstance(node, kind) and which(node):
        yield change(node)
    match node:
        case For() | Region():
            yield from (replace(node, body=body) for body in _changed(node.body, kind, change, which))
        case If():
            yield from (replace(node, then=then) for then in _changed(node.then, kind, change, which))
            if node.otherwise is not None:
                yield from (replace(node, otherwise=other) for other in _changed(node.otherwise, kind, change, which))
        case Block():
            yield from _changed(node, kind, change, which)
        case _:
            pass


# In the process that a tool watches

@dataclass(frozen=True)
class Mutant:
    """A case and the number of one of its faults."""

    case: Case
    number: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.case.name}_{MARK}{self.number}"


def all_faults(case: Case, lowered: Lowered) -> list[Fault]:
    scratch = frozenset(name for name, s in lowered.storages.items() if s.space is lk.AddressSpace.GLOBAL)
    found = faults(lowered.program)
    return [*found, *divergent(lowered.program), *unwritten(lowered.program, scratch)]


def mutants(tool: str, most: int) -> list[Mutant]:
    """The faults for *tool*, of all cases; a random choice where they are more than *most*."""
    result = []
    for case in CASES:
        lowered = lk.lower(case.make())
        result += [Mutant(case, i, f.kind, f.text) for i, f in enumerate(all_faults(case, lowered))
                   if f.kind in KINDS[tool]]
    return result if len(result) <= most else random.Random(1).sample(result, most)


@contextmanager
def lowered_wrongly(change: Callable[[Lowered], Program]) -> Iterator[None]:
    """Texts that are made meanwhile have a *change* of their loop programs."""
    honest = pipeline.lower_fully

    def lower_fully(typed: lk.LoopKernel, machine: Machine) -> Lowered:
        lowered = honest(typed, machine)
        return replace(lowered, program=change(lowered))
    pipeline.lower_fully = lower_fully
    try:
        yield
    finally:
        pipeline.lower_fully = honest


def run_wrongly(mutant: Mutant) -> bool:
    """Is what the case's kernel computes right in spite of the fault?"""
    original = lk.set_options(mutant.case.make(), verify="off")
    knl = annotated(original, name=mutant.name)
    with lowered_wrongly(lambda lowered: all_faults(mutant.case, lowered)[mutant.number].program):
        return run(lk.compile(knl, target="cuda"), mutant.case)


def run(knl: lk.CompiledKernel, case: Case) -> bool:
    """Is what *knl* computes right, at all the case's sizes, as each version of the text runs at some of them only?

    Each array has an allocation of its own, so that memcheck sees an access to the element after its last.
    """
    from pycuda import autoprimaryctx, gpuarray
    assert autoprimaryctx.context                     # importing it makes the primary context current
    right = True
    for sizes in case.sizes:
        arguments = case.data(np.random.default_rng(7), *sizes)
        expected = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()})
        given = {k: gpuarray.to_gpu(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        found = knl(**given).asdict()
        right &= all(np.allclose(found[k].get().astype(np.float64), v, rtol=1e-2, atol=1e-2)
                     for k, v in expected.items())
    return right


def watched(tool: str, most: int, first: int) -> None:
    """Run the golden kernels, unless *first* says that they ran, then the faulty ones; a line for each."""
    # initcheck knows nothing of what TMA writes
    hopper = HOPPER if find_gpu().capability >= (9, 0) and tool != "initcheck" else ()
    for case in (*CASES, *hopper) if first == 0 else ():
        print("clean", case.name, run(lk.compile(case.make(), target="cuda"), case), flush=True)
    for number, mutant in enumerate(mutants(tool, most)):
        if number < first:
            continue
        print("faulty", number, mutant.name, mutant.kind.replace(" ", "-"), flush=True)
        right: object
        try:
            right = run_wrongly(mutant)
        except lk.LoopkitError as err:
            right = f"{type(err).__name__}"
        print("found", number, right, flush=True)
    print("done", flush=True)


# What a tool says

#: Seconds without a line after which a process hangs: threads wait for others at a barrier that these never reach.
PATIENCE = 30
#: How a tool names what it found.
REPORT = re.compile(r"Invalid|(?<!SUMMARY: 0 )hazard|Error:|Uninit|Barrier error")


@dataclass
class Log:
    """What a tool and the processes that it watched printed.

    :ivar results: what became of the fault of each number.
    """

    clean: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    reported: Counter[str] = field(default_factory=Counter)
    faulty: dict[int, tuple[str, str]] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    done: bool = False

    def take(self, line: str) -> None:
        match line.split():
            case ["clean", *_]:
                self.clean.append(line)
            case ["faulty", number, name, kind]:
                self.faulty[int(number)] = (name, kind)
            case ["found", number, result]:
                self.results[int(number)] = result
            case ["done"]:
                self.done = True
            case [mark, *_] if mark.startswith("====="):
                self.reported.update(re.findall(rf"\b(\w+_{MARK}\d+)", line))
                if not self.faulty and (REPORT.search(line) or 0 < len(self.early) < 12):
                    self.early.append(line)            # with the lines that say where

    @property
    def reports(self) -> int:
        return sum(REPORT.search(line) is not None for line in self.early)


def watch(tool: str, most: int, first: int, log: Log) -> str:
    """Run a process from the fault of number *first* on; how it ended."""
    command = ["compute-sanitizer", "--tool", tool, "--show-backtrace", "device", "--print-limit", "100000"]
    if tool != "initcheck":
        command += ["--report-api-errors", "no"]
    if tool == "memcheck":
        command += ["--destroy-on-device-error", "kernel"]
    command += [sys.executable, "-m", "tests.gpu.sanitizer", "--watched", tool]
    command += ["--most", str(most), "--from", str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                          env={**os.environ, "PYTHONUNBUFFERED": "1"}) as process:
        lines: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line.rstrip())
            lines.put(None)
        threading.Thread(target=read, daemon=True).start()
        last = ""
        try:
            while (line := lines.get(timeout=PATIENCE)) is not None:
                last = line
                log.take(line)
            return "dies: " + last if process.wait() else ""
        except queue.Empty:
            return "hangs"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def opinion(tool: str, most: int) -> bool:
    """What *tool* says: prints a summary; is the clean part clean?"""
    log = Log()
    while not log.done:
        first = len(log.results)
        end = watch(tool, most, first, log)
        if log.done:
            break
        if first not in log.faulty and len(log.results) == first:
            print(f"{tool}: {end}", *log.early, sep="\n    ")
            return False
        log.results[len(log.results)] = end.split(":")[0] or "ends"
    print(f"{tool}: {len(log.clean)} golden kernels, {log.reports} reports, "
          f"{sum(x.endswith('True') for x in log.clean)} right", flush=True)
    for line in log.early:
        print("   ", line)
    for kind in KINDS[tool]:
        own = [(name, log.results[number]) for number, (name, k) in log.faulty.items() if k == kind.replace(" ", "-")]
        unseen = [(name, result) for name, result in own if not log.reported[name]]
        wrong = sum(result != "True" for _, result in unseen)
        print(f"  {kind}: {len(own)} faults, {len(own) - len(unseen)} reported; of the others {wrong} show in the "
              f"results, {len(unseen) - wrong} do not", flush=True)
        for name, result in unseen:
            print("    not reported:", name, result, flush=True)
    return bool(log.clean) and not log.reports and all(x.endswith("True") for x in log.clean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=KINDS, help="one tool only")
    parser.add_argument("--most", type=int, default=1000, help="at most so many faults a tool")
    parser.add_argument("--watched", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--from", type=int, default=0, dest="first", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.watched is not None:
        watched(args.watched, args.most, args.first)
        return
    clean = [opinion(tool, args.most) for tool in ([args.tool] if args.tool else KINDS)]
    sys.exit(not all(clean))


if __name__ == "__main__":
    main()
