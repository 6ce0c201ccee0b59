"""distribute_loop and unroll_and_jam: loop distribution (fission) and its combination with unrolling."""
from __future__ import annotations

from collections.abc import Collection

from loopkit.analysis.constructors import reordered
from loopkit.analysis.legality import require_legal
from loopkit.analysis.order import loops_of
from loopkit.errors import ScheduleError
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import UnrollTag
from loopkit.kernel.tree import Barrier, Leaf, Loop, Seq, Tree, leaves, rewrite, seq
from loopkit.transform.iname import split_iname
from loopkit.transform.match import owner
from loopkit.transform.order import distributed
from loopkit.transform.step import given_or_fresh, require_iname, require_positive, transform, with_given_order


@transform
def distribute_loop(kernel: LoopKernel, iname: str, before: str, *, assume: str | None = None,
                    unsafe: bool = False) -> LoopKernel:
    """Split the loop over *iname* in two, in front of the statement *before*.

    The first loop keeps everything textually before the statement. The second loop gets the statement and the rest. If
    the statement is nested in loops further inside, these loops are split too. Both loops keep their iname;
    ``rename_iname`` with *within* gives them different names.

    :arg before: the id of a statement, which includes its reductions; ``S.k.update`` names a part of one.
    :raises UnknownNameError: there is no such iname or statement.
    :raises ScheduleError: the statement is in no loop over *iname*, or is the first in it.
    :raises IllegalTransformError: the dependences between the two parts form a cycle; with the witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", '''
    ...     for i
    ...         s[i] = 2*x[i]  {id=scale}
    ...         for j
    ...             y[i, j] = s[i]  {id=first}
    ...             z[i, j] = y[i, j] + j  {id=second}
    ...         end
    ...     end
    ...     ''')
    >>> print(lk.distribute_loop(knl, "i", before="second").statements_text)
    for i
      s[i] = 2*x[i]  {id=scale}
      for j
        y[i, j] = s[i]  {id=first}
      end
    end
    for i, j
      z[i, j] = y[i, j] + j  {id=second}
    end
    """
    require_iname(kernel, iname)
    kernel.statement(before)
    if not any(step.iname == iname for step in kernel.paths[before]):
        raise ScheduleError(f"'{before}' stands in no loop over '{iname}'.", subject=before,
                            hint="name a statement of the loop that is to be split")

    def one(node: Tree) -> Tree:
        if not isinstance(node, Loop) or node.iname != iname or before not in leaves(node):
            return node
        first, second = _split(node, _first_part(node, before))
        if first is None or second is None:
            raise ScheduleError(f"Nothing stands before '{before}' in the loop over '{iname}'.", subject=before,
                                hint="name the statement that the second loop is to begin with")
        return seq(first, second)
    result = reordered(kernel, rewrite(kernel.tree, one))
    return require_legal(result, f"distribute_loop({iname}, before={before})", assume=assume, unsafe=unsafe)


def _first_part(loop: Loop, statement: str) -> str:
    """*statement* or, if it is textually earlier, the part of a reduction of *statement* in *loop*."""
    if owner(statement) != statement:
        return statement
    return next(s for s in leaves(loop) if owner(s) == statement)


def _split(tree: Tree, at: str) -> tuple[Tree | None, Tree | None]:
    """The nodes before the statement *at* in *tree*, and the rest."""
    match tree:
        case Loop(iname, body):
            first, second = _split(body, at)
            return (None if first is None else Loop(iname, first)), (None if second is None else Loop(iname, second))
        case Seq(children):
            i = next(i for i, child in enumerate(children) if at in leaves(child))
            first, second = _split(children[i], at)
            before = children[:i] if first is None else (*children[:i], first)
            after = children[i + 1:] if second is None else (second, *children[i + 1:])
            return (seq(*before) if before else None), (seq(*after) if after else None)
        case Leaf() | Barrier():
            return None, tree


@transform
def unroll_and_jam(kernel: LoopKernel, iname: str, factor: int, *, outer_iname: str | None = None,
                   inner_iname: str | None = None, within: str | Collection[str] | None = None,
                   assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Run *factor* iterations of *iname* at a time in the innermost loops, unrolled.

    Split *iname* by *factor*, move the inner iname inside all loops in its loop, and tag it ``unr``. The inner loop is
    distributed over statements and loops in sequence.

    :arg outer_iname: default ``i_outer`` for an iname ``i``; *inner_iname*: ``i_inner``.
    :arg within: the statements whose loops are split; default: all.
    :raises UnknownNameError: *iname* is not an iname of *kernel*.
    :raises PreconditionError: *factor* is not a positive integer, or *iname* has a tag.
    :raises IllegalTransformError: iterations of *iname* cannot run together; with the witness.

    >>> knl = lk.make_kernel("{[i, j]: 0<=i<n and 0<=j<m}", '''
    ...     for i
    ...         s[i] = 2*x[i]  {id=scale}
    ...         for j
    ...             y[i, j] = s[i] + j  {id=use}
    ...         end
    ...     end
    ...     ''')
    >>> print(lk.unroll_and_jam(knl, "i", 4).statements_text)
    for i_outer
      for i_inner [unr]
        s[4*i_outer + i_inner] = 2*x[4*i_outer + i_inner]  {id=scale}
      end
      for j, i_inner [unr]
        y[4*i_outer + i_inner, j] = s[4*i_outer + i_inner] + j  {id=use}
      end
    end
    """
    require_iname(kernel, iname)
    length = require_positive(factor, "factor")
    outer = given_or_fresh(kernel, outer_iname, f"{iname}_outer")
    inner = given_or_fresh(kernel, inner_iname, f"{iname}_inner")
    split = split_iname(kernel, iname, length, outer_iname=outer, inner_iname=inner, within=within)
    tree = rewrite(split.tree, lambda node: _innermost(node) if isinstance(node, Loop) and node.iname == inner
                   else node)
    result = reordered(split, tree, tags={**split.tags, inner: UnrollTag()})
    nests = map(loops_of, result.paths.values())
    result = with_given_order(result, *(loops[loops.index(outer):] for loops in nests if inner in loops))
    return require_legal(result, f"unroll_and_jam({iname}, {length})", assume=assume, unsafe=unsafe)


def _innermost(loop: Loop) -> Tree:
    """*loop* moved inside the loops of its body, distributed over their sequence."""
    match loop.body:
        case Loop(iname, body):
            return Loop(iname, _innermost(Loop(loop.iname, body)))
        case Seq(children) if any(map(_has_loop, children)):
            return seq(*map(_innermost, distributed(loop.iname, children, _has_loop)))
        case _:
            return loop


def _has_loop(tree: Tree) -> bool:
    match tree:
        case Loop():
            return True
        case Seq(children):
            return any(map(_has_loop, children))
        case Leaf() | Barrier():
            return False
