"""The warps of a block: one of its own for copies, beside those that compute, and turns of these."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from loopkit.analysis.constructors import annotated, rewritten
from loopkit.analysis.order import require_barriers_in_place
from loopkit.ast.nodes import Completion
from loopkit.errors import PreconditionError
from loopkit.instructions.role_registers import LEAST, UNIT
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import RequestedBarrier
from loopkit.kernel.tags import AutoLocalTag, GroupTag, LocalTag
from loopkit.transform.step import known_list, require_positive, transform


@transform
def specialize_warps(kernel: LoopKernel, producers: str | Iterable[str], *, registers: int = 0) -> LoopKernel:
    """Let a further warp of each block run the copies *producers*: its first thread is the *producer* thread.

    The other threads of the block are its *consumers*. The two roles run at once. Both wait at rings of mbarriers: the
    consumers until a tile is full, and the producer until the warps of the consumers have read the tile that it
    overwrites. :func:`loopkit.verify` proves for all sizes that no wait is missing and that none lasts forever.

    ``pipeline(knl, iname, stages, ahead=0)`` before this step gives a tile several cells. The producer then runs up to
    *stages* tiles ahead of the consumers. Barriers of the block become barriers of the consumers. Both roles compute
    the values in registers that both need, such as a bound that is read from memory once for the block.

    :arg producers: the ids of copies by TMA (:func:`tensorize`). The other statements of the block have whole warps.
    :arg registers: the number for a thread of the producer, 24 to 64. Its whole warpgroup leaves the others to the
        consumers (``setmaxnreg``, on sm_90a; the option ``producer_registers``). 0: all have as many.
    :raises UnknownNameError: there is no such statement.
    :raises PreconditionError: a statement is not a copy by TMA, many threads run it, or *registers* cannot be so many.

    >>> knl = lk.make_kernel("{[b, t, k, i]: 0<=b<n and 0<=t<m and 0<=k,i<32}", '''
    ...     for b, t
    ...         for k
    ...             <> tile[k] = x[b, t, k]  {id=copy}
    ...         end
    ...         for i
    ...             y[b, t, i] = tile[31 - i]  {id=use}
    ...         end
    ...     end''', assumptions="n, m >= 1")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    >>> knl = lk.pipeline(lk.tensorize(knl, "copy", "tma.load"), "t", 2, ahead=0)
    >>> text = str(lk.generate_code(knl, target="cuda"))
    >>> print(text[text.index("    for (int t"):].rstrip())
        for (int t = 0; t < m; ++t) {
            if ((int)threadIdx.x == 0) {
                // copy
                load_box_3d(&tile[t % 2][0], x_map_1x1x32, 128, &tile_full[t % 2], b, t, 0);
            }
            // tile: copy writes, use reads
            wait_for_phase(&tile_full[t % 2], t / 2 % 2);
            // use
            y[32*b*m + 32*t + i] = tile[t % 2][-i + 31];
            // tile: use reads, copy overwrites
            __syncwarp();
        }
    }
    >>> text = str(lk.generate_code(lk.specialize_warps(knl, "copy"), target="cuda"))
    >>> print(text[text.index("    if ((int)threadIdx.x == 32)"):].rstrip())
        if ((int)threadIdx.x == 32) {  // the producer
            for (int t = 0; t < m; ++t) {
                // tile: use reads, copy overwrites
                wait_for_phase(&tile_empty[t % 2], (t + 2) / 2 % 2);
                // copy
                load_box_3d(&tile[t % 2][0], x_map_1x1x32, 128, &tile_full[t % 2], b, t, 0);
            }
        } else if ((int)threadIdx.x < 32) {
            for (int t = 0; t < m; ++t) {
                // tile: copy writes, use reads
                wait_for_phase(&tile_full[t % 2], t / 2 % 2);
                // use
                y[32*b*m + 32*t + i] = tile[t % 2][-i + 31];
                // tile: use reads, copy overwrites
                arrive_as_warp(&tile_empty[t % 2]);
            }
        }
    }
    """
    names = known_list("statement", producers, kernel.statement_by_id)
    _require_copies(kernel, names)
    _require_registers(registers)
    return rewritten(kernel, options=replace(kernel.options, producer_registers=registers), statements=tuple(
        replace(s, options=replace(s.options, producer=True)) if s.id in names else s for s in kernel.statements))


def _require_registers(registers: int) -> None:
    """:raises PreconditionError: a thread of the producer cannot have so many."""
    if registers and (registers % UNIT or not LEAST <= registers <= 64):
        raise PreconditionError(f"A thread of the producer cannot have {registers} registers.", subject="registers",
                                hint=f"use a multiple of {UNIT} from {LEAST} to 64, or 0")


def _require_copies(kernel: LoopKernel, names: Iterable[str]) -> None:
    """:raises PreconditionError: one thread cannot start one of these statements."""
    for s in map(kernel.statement_by_id.__getitem__, names):
        if s.completion is not Completion.PHASE:
            raise PreconditionError(f"'{s.id}' is not a copy by TMA, and the producer thread starts nothing else.",
                                    subject=s.id, hint=f"tensorize(knl, '{s.id}', 'tma.load')")
        if many := [x for x in s.inames if isinstance(kernel.tags.get(x), LocalTag | AutoLocalTag)]:
            raise PreconditionError(f"'{s.id}' runs on many threads, by '{many[0]}', and the producer is one thread.",
                                    subject=many[0], hint=f"untag_inames(knl, '{many[0]}')")


@transform
def persistent(kernel: LoopKernel, blocks: int, *, group: int = 0) -> LoopKernel:
    """Let *blocks* blocks run all places of the grid, each several places in turn, in launches with a producer thread.

    The producer copies the first tiles of the next place while the consumers finish the place before
    (:func:`specialize_warps`). Places are counted along ``g.0`` first, then along ``g.1`` and ``g.2``. The blocks take
    the first *blocks* places in order, the next ones in reverse order, and so on. This balances the blocks if later
    places take less time. Rings go on from one place to the next: threads keep the parity of each mbarrier. Before they
    use other shared memory again, the consumers execute a barrier. It is a warp barrier if each element belongs to one
    warp. The places stay independent of each other. The step sets the options ``persistent`` and ``persistent_group``
    (:class:`Options`).

    :arg blocks: as many as the GPU runs at once: the number of its multiprocessors if each holds one block.
    :arg group: for a grid of three axes: blocks run all places along ``g.2`` for *group* places of ``g.0`` and ``g.1``
        before the next *group* ones, so that these places share the L2 cache. 0: the order is ``g.0``, ``g.1``,
        ``g.2``.
    :raises PreconditionError: *blocks* is not positive, *group* is negative, or not for a grid of three axes; or no
        statement runs in the producer thread.

    >>> knl = lk.make_kernel("{[b, t, k, i]: 0<=b<n and 0<=t<m and 0<=k,i<32}", '''
    ...     for b, t
    ...         for k
    ...             <> tile[k] = x[b, t, k]  {id=copy}
    ...         end
    ...         for i
    ...             y[b, t, i] = tile[31 - i]  {id=use}
    ...         end
    ...     end''', assumptions="n, m >= 1")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    >>> knl = lk.pipeline(lk.tensorize(knl, "copy", "tma.load"), "t", 2, ahead=0)
    >>> knl = lk.persistent(lk.specialize_warps(knl, "copy"), 132)
    >>> text = str(lk.generate_code(knl, target="cuda"))
    >>> print(text[text.index("    const long long tiles"):].rstrip())
        const long long tiles = n;
        // a tile is a place of the grid, along x first; each block runs one in 132, in serpentine order
        for (long long tile_0 = blockIdx.x; tile_0 < tiles; tile_0 += 263 - 2 * (tile_0 % 132)) {
            const int b = (int)tile_0;
    <BLANKLINE>
            if ((int)threadIdx.x == 32) {  // the producer
                for (int t = 0; t < m; ++t) {
                    // tile: use reads, copy overwrites
                    wait_for_next_phase(tile_empty, t % 2, tile_empty_parities_);
                    // copy
                    load_box_3d(&tile[t % 2][0], x_map_1x1x32, 128, &tile_full[t % 2], b, t, 0);
                }
            } else if ((int)threadIdx.x < 32) {
                for (int t = 0; t < m; ++t) {
                    // tile: copy writes, use reads
                    wait_for_next_phase(tile_full, t % 2, tile_full_parities_);
                    // use
                    y[32*b*m + 32*t + i] = tile[t % 2][-i + 31];
                    // tile: use reads, copy overwrites
                    arrive_as_warp(&tile_empty[t % 2]);
                }
            }
        }
    }
    """
    require_positive(blocks, "blocks")
    if not any(s.options.producer for s in kernel.statements):
        raise PreconditionError("No statement runs in a producer thread, so blocks would gain nothing.",
                                subject="blocks", hint="specialize_warps(knl, copies) first")
    if group > 0 and not {*range(3)} <= {tag.axis for tag in kernel.tags.values() if isinstance(tag, GroupTag)}:
        raise PreconditionError("The grid has no three axes, and a group is of places along the first two.",
                                subject="group", hint="tag inames 'g.0', 'g.1' and 'g.2' first, or leave out group")
    return rewritten(kernel, options=replace(kernel.options, persistent=blocks, persistent_group=group))


@transform
def take_turns(kernel: LoopKernel, first: str, last: str) -> LoopKernel:
    """Let the warpgroups of a block run the statements from *first* to *last* one warpgroup at a time.

    In each iteration of the loops around both, warpgroup 0 begins. Warpgroup ``w`` waits until warpgroup ``w - 1`` has
    ended its turn. In the next iteration, warpgroup 0 waits for the last warpgroup. So matrix units multiply for one
    warpgroup while the threads of another one compute. The step is for launches with a producer thread
    (:func:`specialize_warps`), and does not change results.

    Lowering refuses a turn that contains a barrier, or an arrival for the producer. In its turn, a warpgroup waits only
    for copies. The arrivals that a copy needs come before the turn in each warpgroup. So no turn lasts forever.

    :arg first: the id of a statement of all warpgroups; *last*: that of a later one in the same loop.
    :raises UnknownNameError: there is no such statement.
    :raises ScheduleError: *last* does not follow *first*.
    :raises PreconditionError: no statement runs in a producer thread.

    >>> knl = lk.make_kernel("{[b, t, k, i]: 0<=b<n and 0<=t<m and 0<=k,i<256}", '''
    ...     for b, t
    ...         for k
    ...             <> tile[k] = x[b, t, k]  {id=copy}
    ...         end
    ...         for i
    ...             <> s = tile[255 - i]  {id=load}
    ...             <> e = exp(s)  {id=exp}
    ...             y[b, t, i] = e*e  {id=square}
    ...         end
    ...     end''', assumptions="n, m >= 1")
    >>> knl = lk.tag_inames(lk.add_dtypes(knl, {"x": np.float32}), "b:g.0, i:l.0")
    >>> knl = lk.pipeline(lk.tensorize(knl, "copy", "tma.load"), "t", 2, ahead=0)
    >>> knl = lk.take_turns(lk.specialize_warps(knl, "copy"), "exp", "square")
    >>> text = str(lk.generate_code(knl, target="cuda"))
    >>> print(text[text.index("    } else if ((int)threadIdx.x < 256)"):].rstrip())
        } else if ((int)threadIdx.x < 256) {
            for (int t = 0; t < m; ++t) {
                // tile: copy writes, load reads
                wait_for_phase(&tile_full[t % 2], t / 2 % 2);
                // load
                s = tile[t % 2][-i + 255];
                // tile: load reads, copy overwrites
                arrive_as_warp(&tile_empty[t % 2]);
                // warpgroups take turns from exp to square
                begin_turn<2>();
                // exp
                e = expf(s);
                // square
                y[256*b*m + 256*t + i] = e*e;
                end_turn<2>();
            }
        }
    }
    """
    for s in (first, last):
        kernel.statement(s)
    if not any(s.options.producer for s in kernel.statements):
        raise PreconditionError("No statement runs in a producer thread, and only its consumers take turns.",
                                subject=first, hint="specialize_warps(knl, copies) first")
    result = annotated(kernel, barriers=(*kernel.barriers, RequestedBarrier(first, last, "turns")))
    require_barriers_in_place(result)
    return result
