"""A second opinion from NVIDIA's tools: nothing in the golden kernels, and faults that were put into them.

    python -m tests.gpu.sanitizer                 every tool, about ten minutes
    python -m tests.gpu.sanitizer --tool memcheck one of them
    python -m tests.gpu.sanitizer --most 20       at most 20 faults a tool

Each tool watches one process that runs every golden kernel as it is, and then with one fault after the other, each
under a name of its own, by which the tool's reports are counted. A fault that the tool does not report is looked at
by its results.
"""
from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymbolic.primitives as p

import loopkit as lk
from loopkit.analysis.dependences import unchanged_from
from loopkit.ast.nodes import Assign, Block, For, Function, If, Node, Program, Region, Sync
from loopkit.lowering import pipeline
from loopkit.lowering.pipeline import Lowered
from tests.cases import CASES, Case
from tests.verify.faults import Fault, faults

#: The faults that a tool is made for; of the others it knows nothing.
KINDS = {"racecheck": ("barrier deleted",), "memcheck": ("index shifted", "bound weakened", "guard weakened"),
         "synccheck": ("barrier divergent",), "initcheck": ("write deleted",)}
MARK = "fault"


# {{{ faults that only a run shows

def divergent(program: Program) -> Iterator[Fault]:
    """Each barrier under a condition that only the lower half of the threads meet."""
    for number, function in enumerate(program.functions):
        half = p.Comparison(p.Variable("l.0"), "<", function.threads//2)
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
            yield Block((*nodes[:i], new, *nodes[i + 1:]))


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

# }}}


# {{{ in the process that a tool watches

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
        assert isinstance(lowered, Lowered)
        result += [Mutant(case, i, f.kind, f.text) for i, f in enumerate(all_faults(case, lowered))
                   if f.kind in KINDS[tool]]
    return result if len(result) <= most else random.Random(1).sample(result, most)


def compiled(case: Case, name: str, change: Callable[[Lowered], Program]) -> lk.CompiledKernel:
    """The case's kernel, called *name*, with a *change* of its loop program."""
    original = lk.set_options(case.make(), verify="off")
    knl = original.copy(name=name, carried=unchanged_from(original))
    honest = pipeline.lower_fully

    def lower_wrongly(typed: lk.LoopKernel) -> Lowered:
        lowered = honest(typed)
        return replace(lowered, program=change(lowered))
    pipeline.lower_fully = lower_wrongly
    try:
        result = lk.compile(knl, target="cuda")
        run(result, case)                              # texts are made when a call needs them
        return result
    finally:
        pipeline.lower_fully = honest


def run(knl: lk.CompiledKernel, case: Case) -> bool:
    """Is what *knl* computes right, on tensors of exactly the size they need?"""
    import torch
    sizes = max(case.sizes, key=np.prod)              # many blocks, and a ragged last one
    arguments = case.data(np.random.default_rng(7), *sizes)
    expected = case.expected({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()})
    given = {k: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    found = knl(**given).asdict()
    torch.cuda.synchronize()
    return all(np.allclose(found[k].double().cpu().numpy(), v, rtol=1e-2, atol=1e-2) for k, v in expected.items())


def watched(tool: str, most: int) -> None:
    """Run the golden kernels, then the faulty ones; a line on standard output for each."""
    cases = [case for case in CASES if case.name not in HALVES]
    for case in cases:
        print("clean", case.name, run(lk.compile(case.make(), target="cuda"), case), flush=True)
    for mutant in mutants(tool, most):
        if mutant.case.name in HALVES:
            continue
        right: object
        try:
            knl = compiled(mutant.case, mutant.name, lambda low, m=mutant: all_faults(m.case, low)[m.number].program)
            right = run(knl, mutant.case)
        except lk.LoopkitError as err:
            right = f"{type(err).__name__}"
        print("faulty", mutant.name, mutant.kind.replace(" ", "-"), right, flush=True)


#: torch has no way from ml_dtypes' arrays to its own.
HALVES = frozenset(case.name for case in CASES if case.dtype.itemsize == 2)

# }}}


def opinion(tool: str, most: int) -> bool:
    """What *tool* says: prints a summary; is the clean part clean?"""
    command = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--print-limit", "100000"]
    if tool == "memcheck":
        command += ["--destroy-on-device-error", "kernel"]
    if tool == "initcheck":
        command = [c for c in command if c not in ("--report-api-errors", "no")]
    command += [sys.executable, "-m", "tests.gpu.sanitizer", "--watched", tool, "--most", str(most)]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONUNBUFFERED": "1"})
    lines = done.stdout.splitlines()
    reported = Counter(re.findall(rf"\b(\w+_{MARK}\d+)\b", "\n".join(x for x in lines if x.startswith("====="))))
    clean = [x for x in lines if x.startswith("clean")]
    first = next((i for i, x in enumerate(lines) if x.startswith("faulty")), len(lines))
    early = [x for x in lines[:first] if x.startswith("=====") and MARK not in x
             and re.search(r"Invalid|hazard|Error:|Uninit|Barrier error", x)]
    faulty = [x.split() for x in lines if x.startswith("faulty")]
    print(f"{tool}: {len(clean)} golden kernels, {len(early)} reports, "
          f"{sum(x.endswith('True') for x in clean)} right", flush=True)
    for kind in KINDS[tool]:
        own = [x for x in faulty if x[2] == kind.replace(" ", "-")]
        seen = [x for x in own if reported[x[1]]]
        unseen = [x for x in own if not reported[x[1]]]
        wrong = sum(x[3] != "True" for x in unseen)
        print(f"  {kind}: {len(own)} faults, {len(seen)} reported; of the others {wrong} show in the results, "
              f"{len(unseen) - wrong} do not", flush=True)
        for x in unseen:
            print("    not reported:", *x[1:], flush=True)
    if not clean:
        print(done.stdout[-2000:], done.stderr[-2000:])
    return bool(clean) and not early and all(x.endswith("True") for x in clean)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=KINDS, help="one tool only")
    parser.add_argument("--most", type=int, default=1000, help="at most so many faults a tool")
    parser.add_argument("--watched", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.watched is not None:
        watched(args.watched, args.most)
        return
    clean = [opinion(tool, args.most) for tool in ([args.tool] if args.tool else KINDS)]
    sys.exit(not all(clean))


if __name__ == "__main__":
    main()
