"""Translation validation: a proof that a loop program executes the lowered kernel, however it was made."""
from __future__ import annotations

from collections.abc import Iterator

from loopkit.ast.nodes import Assign, For, Function, Sync
from loopkit.instructions.mma import Mma
from loopkit.instructions.vector_access import VectorAccess
from loopkit.lowering.lowered import Launch, Lowered
from loopkit.poly.affine import NotAffineError
from loopkit.poly.limits import bounded
from loopkit.verification.report import Mismatch
from loopkit.verification.validation_grid import grid_of
from loopkit.verification.validation_host import host_findings
from loopkit.verification.validation_instances import InstanceCheck
from loopkit.verification.validation_order import OrderCheck
from loopkit.verification.validation_vectors import VectorCheck
from loopkit.verification.validation_walk import Execution, executions
from loopkit.verification.validation_warps import ProductCheck, WarpRegisterCheck


def validate(lowered: Lowered) -> tuple[Mismatch, ...]:
    """The mismatches between the loop program of *lowered* and its kernel; ``()`` if the program is proven right.

    The proof covers all sizes that the assumptions allow:

    - each statement executes each of its instances once on each thread of the instance, and no other instance;
    - the inames of blocks and threads have the values that the kernel's tags give them, as assumed by its legality;
    - each execution reads and writes the elements, and computes the expression, of its instance;
    - executions that access one cell of a temporary, or depend on each other, run in the order of the kernel: on one
      thread by the order of the program, on two threads of a block by a barrier between them;
    - all threads of a block execute each barrier;
    - an element of an asynchronous access is accessed again only behind a wait for that access;
    - vector accesses move the elements of their loop, at a time that keeps the loop's meaning, and are aligned under
      their assumptions;
    - an instruction of a warp reads the lane that holds the element of the statement; a thread reads elements of other
      lanes in no other way, and none that an inactive lane overwrites;
    - in a matrix multiply-accumulate, each lane loads the elements that the instruction takes from it for the
      iterations of other lanes; all lanes of the warp are active; its loads are ordered as if each lane read all of it;
    - blocks with inter-block flags take tickets in start order, and flagged values are stored and loaded by flags;
    - the host makes each launch once for each iteration of its loops, in an order that keeps the dependences.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    >>> validate(lk.lower(knl))
    ()
    """
    with bounded(f"validating kernel '{lowered.kernel.name}'"):
        return tuple(findings(lowered))


def findings(lowered: Lowered) -> Iterator[Mismatch]:
    """The mismatches of :func:`validate`, one by one."""
    lowered.require_finished()
    functions = lowered.program.functions
    for launch, function in zip(lowered.launches, functions, strict=True):
        try:
            yield from _of_launch(lowered, launch, function)
        except NotAffineError as err:
            yield Mismatch("undecided", launch.name, "", f"'{err}' is no affine form")
    yield from host_findings(lowered)


def _of_launch(lowered: Lowered, launch: Launch, function: Function) -> Iterator[Mismatch]:
    knl = launch.kernel
    if function.ticketed != launch.ticketed:
        how = "" if function.ticketed else "not "
        yield Mismatch("turn", launch.name, "", f"the blocks are {how}numbered as they start")
    grid = grid_of(knl, function)
    of_statements: dict[str, list[Execution]] = {}
    places: list[Execution] = []
    loops: list[Execution] = []
    for e in executions(knl, function, grid):
        match e.node:
            case Assign(statement=statement) if not e.condition.is_empty():
                of_statements.setdefault(statement, []).append(e)
            case Sync():
                places.append(e)
            case For():
                loops.append(e)
            case _:
                pass
    subject = launch, lowered.storages, function, grid, of_statements, places
    decided = True
    for found in InstanceCheck(*subject).findings():
        yield found
        decided = decided and found.kind != "undecided"
    for loop in loops:
        assert isinstance(loop.node, For)
        match loop.node.instruction:
            case VectorAccess():
                yield from VectorCheck(*subject, loop).findings()
            case Mma() as product:
                yield from ProductCheck(*subject, loop, product).findings()
            case other:
                raise TypeError(f"there is no check of {other} for a loop")
    yield from WarpRegisterCheck(*subject).findings()
    if decided:
        yield from OrderCheck(*subject).findings()
