"""add_block_flags: blocks wait for values of blocks of the same launch that started earlier."""
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

    Where blocks need what others have computed, a launch ends. With this step none does: each element of such a
    temporary is published as soon as it is written, and who reads it waits for that. It takes an order in which the
    blocks start. So they are numbered as they do (along ``g.0`` first), and a value may only go to the same block or to
    one with a greater number: of the blocks that are not through, the first waits for nobody. On a host they run in
    this order.

    What a reader gets never depends on which block is faster, as each element has one value: it is written once, by a
    statement that runs whatever the data are. Results are the same to the last bit in every run.

    :raises UnknownNameError: one of them is no temporary.
    :raises StorageError: an element is read that nobody writes, or before it is written, or written twice; this is
        asked again when the kernel is lowered, and that no value goes to a block before the writer's.
    :raises UndecidedError: that depends on data.

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
