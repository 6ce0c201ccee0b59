"""add_block_flags: inter-block flags, by which a block waits for values of earlier blocks of the same launch."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.between_blocks import require_one_write
from loopkit.analysis.constructors import annotated
from loopkit.analysis.legality import require_legal
from loopkit.instructions.block_flag import BlockFlag
from loopkit.kernel.kernel import LoopKernel, unknown
from loopkit.language.names import name_list
from loopkit.transform.step import transform


@transform
def add_block_flags(kernel: LoopKernel, temporary_names: str | Iterable[str]) -> LoopKernel:
    """Let blocks wait for values of the temporaries *temporary_names* that other blocks of their launch compute.

    A cross-block dependence otherwise ends the launch. With this step the writer sets an inter-block flag for each
    element as soon as the element is written, and a reader waits for the flag. Blocks take tickets in the order in
    which they start (along ``g.0`` first). A value may flow only to the same block or to a block with a greater ticket,
    so the first unfinished block never waits, and no deadlock is possible. The host runs the blocks in ticket order.

    Each element is written once, by a statement that runs regardless of the data. Results therefore do not depend on
    the speed of blocks and are the same to the last bit in every run.

    :raises UnknownNameError: a name is no temporary.
    :raises StorageError: an element is read that no statement writes, is read before it is written, or is written
        twice. Lowering checks this again, and that no value flows to a block before the writer's.
    :raises UndecidedError: one of these conditions depends on data.

    >>> knl = lk.make_kernel(
    ...     "{[b, i]: 0<=b<n and 0<=i<256}",
    ...     '''for b
    ...            <> part[b] = sum(i, x[b, i])  {id=part}
    ...            y[b] = if(b > 0, part[b - 1], part[b])
    ...        end''')
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    >>> len(lk.generate_code(knl, target="cuda").kernels)
    2
    >>> len(lk.generate_code(lk.add_block_flags(knl, "part"), target="cuda").kernels)
    1
    """
    names = name_list(temporary_names)
    for name in names:
        if name not in kernel.temporaries:
            raise unknown("temporary", name, kernel.temporaries)
        require_one_write(kernel, name)
    result = annotated(kernel, temporaries={t.name: replace(t, instruction=BlockFlag()) if t.name in names else t
                                            for t in kernel.temporaries.values()})
    return require_legal(result, f"add_block_flags({', '.join(map(repr, names))})")
