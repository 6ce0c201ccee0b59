"""A kernel as nested lines, for specifications."""
from __future__ import annotations

from textwrap import dedent

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.tree import Leaf, Loop, Seq, Tree


def outline(knl: LoopKernel) -> str:
    """Loops and statements: ``S: y[i] = x[i] if cond``."""
    lines: list[str] = []

    def walk(tree: Tree, depth: int) -> None:
        pad = "  " * depth
        match tree:
            case Leaf(name):
                s = knl.statement(name)
                condition = " if " + " and ".join(map(str, s.predicates)) if s.predicates else ""
                lines.append(f"{pad}{name}: {s.assignee} {s.combine or ''}= {s.expression}{condition}")
            case Loop(iname, body):
                lines.append(f"{pad}for {iname}")
                walk(body, depth + 1)
            case Seq(children):
                for child in children:
                    walk(child, depth)
            case _:
                raise AssertionError(tree)
    walk(knl.tree, 0)
    return "\n".join(lines)


def text(lines: str) -> str:
    """*lines* without their common indentation and outer newlines."""
    return dedent(lines).strip("\n").rstrip()
