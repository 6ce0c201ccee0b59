"""The order in which statement instances run, as far as it is sequential."""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tags import InameTag, VecTag, is_innermost, is_parallel
from loopkit.kernel.tree import Leaf, Loop, Meeting, Path, Seq, Tree, meeting, nest, paths, seq
from loopkit.poly.limits import kept


def execution_paths(knl: LoopKernel) -> Mapping[str, Path]:
    """The path to each statement through its *sequential* loops."""
    return kept(knl.memo, "execution_paths", lambda: paths(sequential(knl.tree, knl.tags)) if knl.tags else knl.paths)


def sequential(tree: Tree, tags: Mapping[str, InameTag], innermost: tuple[str, ...] = ()) -> Tree:
    """*tree* without parallel loops, and with ``ilp`` and ``vec`` loops around single statements."""
    match tree:
        case Loop(iname, body):
            tag = tags.get(iname)
            if is_parallel(tag):
                return sequential(body, tags, innermost)
            if is_innermost(tag):
                return sequential(body, tags, (*innermost, iname))
            return Loop(iname, sequential(body, tags, innermost))
        case Seq(children):
            return seq(*(sequential(c, tags, innermost) for c in children))
        case Leaf():
            return nest(tuple(sorted(innermost, key=lambda x: isinstance(tags.get(x), VecTag))), tree)
        case _:
            return tree


def meeting_of(paths: Mapping[str, Path], source: str, sink: str) -> Meeting:
    """The loops that two statements share along *paths*, and whether *source* comes first in them."""
    return meeting(paths[source], paths[sink])


def loops_of(path: Path) -> tuple[str, ...]:
    """The inames of the loops on *path*, outermost first."""
    return tuple(step.iname for step in path if step.iname is not None)
