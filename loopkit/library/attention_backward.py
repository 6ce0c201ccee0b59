"""The gradients of attention by the warpgroups of Hopper: the same bits in each run."""
from __future__ import annotations

from math import e, lcm, log2

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.attention import Scores, rows_on_warpgroups
from loopkit.library.defaults import items_a_thread, known_dtype, measured
from loopkit.library.matrix_units import UNITS
from loopkit.library.warpgroups import ROWS, strip

#: The rows whose sums a block of the first launch computes take so many threads.
_THREADS = 256


@checked
def attention_backward(dtype: npt.DTypeLike = "bfloat16", *, head: int, mask: str = "full", scale: float | None = None,
                       key_tile: tuple[int, int] | None = None, query_tile: tuple[int, int] | None = None,
                       stages: int | None = None, multiprocessors: int | None = None) -> lk.LoopKernel:
    """A kernel for the gradients *dq*, *dk* and *dv* of :func:`attention`, from the gradient *go* of its result *o*.

    The weights ``w[i, j]`` are computed again, from the scores and from ``log_sum[b, h, i]``, the logarithm of the sum
    of the exponentials of a query's scores (``attention(..., log_sum=True)``). With ``dw = go v^T`` and
    ``ds[i, j] = w[i, j]*(dw[i, j] - sum(e, o[i, e]*go[i, e]))``, the gradients are ``dv = w^T go``,
    ``dk = scale*ds^T q`` and ``dq = scale*ds k``.

    There are three launches. The first one computes the sums of rows. In the second one, a block has a tile of keys and
    runs over the queries; in the third one, it has a tile of queries and runs over the keys. Both compute the weights,
    and no block adds to the results of another one, so that the bits are the same in each run. Threads keep weights and
    gradients in registers, matrix units multiply, and a warpgroup of its own lets TMA copy tiles. The kernel is for
    GPUs of ``CudaTarget("sm_90a")``.

    The arrays are ``q[batch, heads, n, head]``, *o*, *go* and *dq* like *q*, ``k[batch, heads, m, head]``, *v*, *dk*
    and *dv* like *k*, and ``log_sum[batch, heads, n]`` in float32. Sums are in float32, and weights and *ds* in *dtype*
    as factors. If all keys count, heads that share keys may be passed as one head, with the queries of all of them.

    :arg dtype: bfloat16 or float16, of all arrays but *log_sum*.
    :arg head: the length of the last axes, 64 or 128.
    :arg mask: ``"full"``: all keys count; ``"causal"``: those up to the query, ``j <= i``, with ``n = m``.
    :arg scale: a positive number; default: ``head**-0.5``.
    :arg key_tile: the keys of a block and the queries of a tile over which it runs, multiples of 64 and 16;
        *query_tile*: the queries of a block and the keys of a tile. With a mask, the second number divides the first.
    :arg stages: tiles in shared memory at once, two or more.
    :arg multiprocessors: those of the GPU, for :func:`~loopkit.persistent` blocks, each with several tiles; 0: each
        block has one tile; default: those of the measured GPU.
    :raises PreconditionError: an argument cannot have such a value, or arguments exclude each other.

    >>> knl = lk.library.attention_backward(head=64)
    >>> print(*knl.argument_by_name["dk"].shape)
    batch heads m 64
    """
    form = Gradients(known_dtype(dtype), head, mask, scale)
    form.require_known()
    key_tiles, query_tiles, stages = measured("attention_backward", key_tiles=None, query_tiles=None, stages=stages)
    key_tile, query_tile = key_tile or key_tiles[str(head)], query_tile or query_tiles[str(head)]
    form.require_tiles(key_tile, query_tile, stages)
    knl = _sums_of_rows(form.kernel(key_tile, query_tile), form)
    # with a causal mask, the last queries have most keys, and come first
    knl = lk.reverse(knl, "qa") if mask == "causal" else knl
    knl = lk.tag_inames(knl, {"ka": "g.0", "qa": "g.0", "h": "g.1", "b": "g.2"})
    knl = _tiles_of_keys(knl, form)
    knl = _tiles_of_queries(knl, form)
    # sums are in float32, and a warpgroup multiplies at once
    knl = lk.set_accumulator_dtype(knl, np.float32)
    for products, columns in (("k_scores, k_by_weights", key_tile[1]), ("q_scores, q_by_weights", query_tile[1]),
                              ("dv_sums, dk_sums, dq_sums", head)):
        for product in products.split(", "):
            knl = lk.tensorize(knl, product, UNITS[form.dtype.name].of_warpgroup(columns))
    # a thread of its own copies tiles as soon as there is room
    knl = lk.pipeline(knl, "kt", stages, temporaries=["k_q_tile", "k_go_tile", "k_stats_tile"], ahead=0)
    knl = lk.pipeline(knl, "qt", stages, temporaries=["q_k_tile", "q_v_tile"], ahead=0)
    knl = lk.specialize_warps(knl, [s.id for s in knl.statements if s.id.endswith("_tile_rule")],
                              registers=24 if min(key_tile[0], query_tile[0]) > ROWS else 0)
    # threads compute weights while the products with v run, and their derivatives while those with go do
    knl = lk.delay(knl, "kt", {"k_by_weights.ke.update": "k_scores", "dv_sums.kc.update": "k_by_scores",
                               "k_by_weights": "k_by_scores", "dv_sums": "dk_sums"}, by=0)
    knl = lk.delay(knl, "qt", {"q_by_weights.qe.update": "q_scores", "q_by_weights": "q_by_scores"}, by=0)
    # weights are replaced in the first tiles only
    knl = lk.peel(knl, "qt", first=query_tile[0] // query_tile[1] if mask == "causal" else 1)
    knl = lk.peel(knl, "kt", first=key_tile[0] // key_tile[1]) if mask == "causal" else knl
    blocks, = measured("attention_backward", multiprocessors=multiprocessors)
    return lk.persistent(knl, blocks) if blocks else knl


class Gradients(Scores):
    """The formula of the gradients."""

    def require_known(self) -> None:
        """:raises PreconditionError: an argument has an unknown value."""
        super().require_known()
        if self.head not in (64, 128):
            raise lk.PreconditionError(f"The length of a head is 64 or 128, and not {self.head}.", subject="head",
                                       hint="pad the arrays with zeros")
        if self.mask not in ("full", "causal"):
            raise lk.PreconditionError(f"There are no gradients with a mask {self.mask!r}.", subject="mask",
                                       hint="use 'full' or 'causal'")

    def require_tiles(self, key_tile: tuple[int, int], query_tile: tuple[int, int], stages: int) -> None:
        """:raises PreconditionError: a block cannot have such tiles."""
        for what, (own, other) in (("key_tile", key_tile), ("query_tile", query_tile)):
            self.require_tile((f"first number of '{what}'", what, own), (f"second number of '{what}'", what, other),
                              stages=stages)

    def kernel(self, key_tile: tuple[int, int], query_tile: tuple[int, int]) -> lk.LoopKernel:
        """The kernel for tiles of so many keys and queries; names begin with ``k`` where a block has a tile of keys,
        and with ``q`` where it has one of queries.
        """
        # the sums of rows are there for whole tiles
        rows = lcm(key_tile[1], query_tile[0])
        batch, heads, n, m = (p.Variable(x) for x in ("batch", "heads", "n", self.m))
        wide, q, k = np.dtype(np.float32), (batch, heads, n), (batch, heads, m)
        arrays = [*(lk.GlobalArg(x, self.dtype, shape=(*q, self.head)) for x in ("q", "o", "go", "dq")),
                  *(lk.GlobalArg(x, self.dtype, shape=(*k, self.head)) for x in ("k", "v", "dk", "dv")),
                  lk.GlobalArg("log_sum", wide, shape=q),
                  lk.TemporaryVariable("stats", wide, (batch, heads, 2, (n + (rows - 1))//rows*rows),
                                       lk.AddressSpace.GLOBAL)]
        of_rows = (f"{{[b, h, r, rd]: 0<=b<batch and 0<=h<heads and 0<=r<floor((n + {rows - 1})/{rows})*{rows} and "
                   f"0<=rd<{self.head}}}")
        of_keys, of_queries = self._of_keys(*key_tile), self._of_queries(*query_tile)
        return lk.make_kernel([of_rows, of_keys[0], of_queries[0]], f"""
for b, h, r
    # beyond the end, weights are 0
    stats[b, h, 0, r] = if(r < n, {log2(e)!r}f*log_sum[b, h, r], 1.0e30f)  {{id=low}}
    stats[b, h, 1, r] = sum(rd, cast(float32, o[b, h, r, rd])*cast(float32, go[b, h, r, rd]))  {{id=delta, if=r < n}}
    stats[b, h, 1, r] = 0  {{id=no_delta, if=r >= n}}
end
{of_keys[1]}
... gbarrier
{of_queries[1]}
""", [*arrays, "..."], name="attention_backward", assumptions=f"batch, heads, n, {self.m} >= 1")

    def _of_keys(self, keys: int, queries: int) -> tuple[str, str]:
        """The domain and the statements for the gradients of *k* and *v*: a block has a tile of keys."""
        # tiles of queries run from the first one that counts on
        first = f"{keys // queries}*ka + " if self.mask == "causal" else ""
        key, query, dtype, factor = f"{keys}*ka + kj", f"{queries}*({first}kt)", self.dtype.name, self.scaling*log2(e)
        mask = f"k_w[ki] = 0  {{id=k_mask, if={key} > {query} + ki}}" if self.mask == "causal" else ""
        domain = (f"{{[ka, kj, kt, ki, kc, kd, ke, kg, kx]: 0<=ka and {keys}*ka<{self.m} and 0<=kj<{keys} and "
                  f"0<=kt and {query}<n and 0<=ki,kc,kg<{queries} and 0<=kd,ke,kx<{self.head}}}")
        return domain, f"""
{self._rows_of("k")}
k_stats(b_, h_, which, row) := stats[b_, h_, which, row]
for b, h, ka, kj
    <> dk_sums[kx] = 0.0f  {{id=first_dk}}
    <> dv_sums[kx] = 0.0f  {{id=first_dv}}
    for kt
        <> k_s[ki] = sum(kd, k_k_rows(b, h, {key}, kd)*k_q_rows(b, h, {query} + ki, kd))  {{id=k_scores}}
        <> k_dw[ki] = sum(ke, k_v_rows(b, h, {key}, ke)*k_go_rows(b, h, {query} + ki, ke))  {{id=k_by_weights}}
        <> k_w[ki] = exp2_ftz({factor!r}f*k_s[ki] - k_stats(b, h, 0, {query} + ki))  {{id=k_weights}}
        {mask}
        <{dtype}> k_p[ki] = cast({dtype}, k_w[ki])  {{id=k_factors}}
        <{dtype}> k_ds[ki] = cast({dtype}, k_w[ki]*(k_dw[ki] - k_stats(b, h, 1, {query} + ki)))  {{id=k_by_scores}}
        dv_sums[kx] = dv_sums[kx] + sum(kc, k_p[kc]*k_go_rows(b, h, {query} + kc, kx))  {{id=dv_sums}}
        dk_sums[kx] = dk_sums[kx] + sum(kg, k_ds[kg]*k_q_rows(b, h, {query} + kg, kx))  {{id=dk_sums}}
    end
    dv[b, h, {key}, kx] = dv_sums[kx]  {{id=dv, if={key} < {self.m}}}
    dk[b, h, {key}, kx] = {self.scaling!r}f*dk_sums[kx]  {{id=dk, if={key} < {self.m}}}
end"""

    def _of_queries(self, queries: int, keys: int) -> tuple[str, str]:
        """The domain and the statements for the gradients of *q*: a block has a tile of queries."""
        causal, dtype, factor = self.mask == "causal", self.dtype.name, self.scaling*log2(e)
        query = f"{queries}*qa + qi"
        # tiles of keys run from the last one that counts on
        last = f"{queries // keys}*qa + {queries // keys - 1}" if causal else f"floor((m - 1)/{keys})"
        key = f"{keys}*({last.replace('floor', '').replace('/', '//')} - qt)"
        domain = (f"{{[qa, qi, qt, qj, qc, qd, qe, qx]: 0<=qa and {queries}*qa<n and 0<=qi<{queries} and 0<=qt<={last} "
                  f"and 0<=qj,qc<{keys} and 0<=qd,qe,qx<{self.head}}}")
        return domain, f"""
{self._rows_of("q")}
for b, h, qa, qi
    <> q_low = stats[b, h, 0, {query}]  {{id=q_low}}
    <> q_delta = stats[b, h, 1, {query}]  {{id=q_delta}}
    <> dq_sums[qx] = 0.0f  {{id=first_dq}}
    for qt
        <> q_s[qj] = sum(qd, q_q_rows(b, h, {query}, qd)*q_k_rows(b, h, {key} + qj, qd))  {{id=q_scores}}
        <> q_dw[qj] = sum(qe, q_go_rows(b, h, {query}, qe)*q_v_rows(b, h, {key} + qj, qe))  {{id=q_by_weights}}
        <> q_w[qj] = exp2_ftz({factor!r}f*q_s[qj] - q_low)  {{id=q_weights}}
        q_w[qj] = 0  {{id=q_mask, if={key} + qj > {query if causal else 'm - 1'}}}
        <{dtype}> q_ds[qj] = cast({dtype}, q_w[qj]*(q_dw[qj] - q_delta))  {{id=q_by_scores}}
        dq_sums[qx] = dq_sums[qx] + sum(qc, q_ds[qc]*q_k_rows(b, h, {key} + qc, qx))  {{id=dq_sums}}
    end
    dq[b, h, {query}, qx] = {self.scaling!r}f*dq_sums[qx]  {{id=dq, if={query} < n}}
end"""

    def _rows_of(self, nest: str) -> str:
        """The rules for the rows of the arrays in a nest, with zeros beyond the end."""
        return "\n".join(f"{nest}_{x}_rows(b_, h_, row, column) := {x}[b_, h_, row, column] if row < {length} else 0"
                         for x, length in (("q", "n"), ("go", "n"), ("k", self.m), ("v", self.m)))


def _sums_of_rows(knl: lk.LoopKernel, form: Gradients) -> lk.LoopKernel:
    """The first launch: neighbouring threads have vectors of a row."""
    vector = items_a_thread(form.dtype)
    knl = lk.split_iname(knl, "rd", vector, outer_iname="rd_lane", inner_iname="rd_item", outer_tag="l.0",
                         inner_tag="vec")
    return lk.split_iname(knl, "r", _THREADS*vector // form.head, outer_tag="g.0", inner_tag="l.1")


def _tiles_of_keys(knl: lk.LoopKernel, form: Gradients) -> lk.LoopKernel:
    """The second launch: a block has a tile of keys, and runs over tiles of queries."""
    knl = rows_on_warpgroups(knl, form, "k", "j", "dceg", ["k_p", "k_ds"], ["dv_sums", "dk_sums"])
    for x, sweep in (("k", ["kj_warpgroup", "kj_box", "kd_step", "kd_box"]),
                     ("v", ["kj_warpgroup", "kj_box", "ke_step", "ke_box"]),
                     ("q", ["ki", "kd_step", "kd_box", "kg_step", "kg_box", "kx"]),
                     ("go", ["ki", "ke_step", "ke_box", "kc_step", "kc_box", "kx"])):
        knl = strip(knl, x, sweep, nest="k_")
    # the sums of rows, which the launch before writes, belong to columns here, which all threads have
    return lk.precompute(knl, "k_stats", ["ki"], temporary_name="k_stats_tile", dtype=np.float32, engine="tma",
                         allow_global_storage=True, allow_launches=True)


def _tiles_of_queries(knl: lk.LoopKernel, form: Gradients) -> lk.LoopKernel:
    """The third launch: a block has a tile of queries, and runs over tiles of keys."""
    knl = rows_on_warpgroups(knl, form, "q", "i", "dce", ["q_ds"], ["dq_sums"])
    for x, sweep in (("q", ["qi_warpgroup", "qi_box", "qd_step", "qd_box"]),
                     ("go", ["qi_warpgroup", "qi_box", "qe_step", "qe_box"]),
                     ("k", ["qj", "qd_step", "qd_box", "qc_step", "qc_box", "qx"]),
                     ("v", ["qj", "qe_step", "qe_box"])):
        knl = strip(knl, x, sweep, nest="q_")
    return knl
