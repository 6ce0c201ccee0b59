"""Match expressions in the options ``dep_query=`` and ``nosync_query=``."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.constructors import in_own_order
from loopkit.analysis.match import matching
from loopkit.expr.tokens import Token
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.language.program import QUERY, Ids, ParsedProgram, executed


def with_queried_statements(kernel: LoopKernel, program: ParsedProgram, ids: Ids) -> LoopKernel:
    """*kernel* with the statements that match expressions select in the options of statements.

    ``dep_query=`` selects among the statements above its own: the order of the text is the order of statements.

    :raises UnknownNameError: a pattern matches no name of *kernel*.
    """
    every = [(node, [*ids.queries(node)], [
        claim.others for claim in node.options.nosync if claim.others.kind == QUERY and claim.scope != "global"])
             for node in executed(program.body)]
    nodes = {ids.of[node.start]: (node, deps, claims) for node, deps, claims in every if deps or claims}
    if not nodes:
        return kernel

    # the statements of a call have its place
    named = {s.id: s.options.calls[0] if s.options.calls else owner(s.id) for s in kernel.statements}
    places = {owner(x): ids.places.get(name) for x, name in named.items()}

    def selected(tokens: Iterable[Token]) -> frozenset[str]:
        return frozenset(owner(s) for token in tokens for s in matching(kernel, token.text))

    def completed(s: Statement) -> Statement:
        if named[s.id] not in nodes:
            return s
        node, deps, claims = nodes[named[s.id]]
        above = frozenset(x for x in selected(deps) if (place := places[x]) is not None and place < node.start)
        others = selected(claims) - {owner(s.id)}
        return replace(s, options=replace(s.options, depends_on=s.options.depends_on | above,
                                          no_sync_with=s.options.no_sync_with | others))
    return in_own_order(kernel, statements=tuple(map(completed, kernel.statements)))
