"""The gradients of attention by the warpgroups of Hopper, in launches that give the same bits each time."""
from __future__ import annotations

from dataclasses import dataclass
from math import e, log2

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import items_a_thread, known_dtype
from loopkit.library.matrix_units import ROW, UNITS
from loopkit.library.warpgroups import ROWS, STEP


@checked
def attention_backward(dtype: npt.DTypeLike = "bfloat16", *, head: int, mask: str = "full", scale: float | None = None,
                       stages: int | None = None) -> lk.LoopKernel:
    form = Gradients(known_dtype(dtype), head, mask, head**-0.5 if scale is None else float(scale))
    tiles, stages = ((128, 64), (128, 128 if head == 64 else 64)), 2
    knl = _by_rows(form.kernel(tiles), form)
    knl = _by_queries(_by_keys(knl, form, stages), form, stages)
    knl = lk.set_accumulator_dtype(knl, np.float32)
    (keys, queries), (_, other_keys) = tiles
    for s, columns in {"k_scores": queries, "k_by_weights": queries, "dv_sums": head, "dk_sums": head,
                       "q_scores": other_keys, "q_by_weights": other_keys, "dq_sums": head}.items():
        knl = lk.tensorize(knl, s, f"wgmma.m64n{columns}k{STEP // form.dtype.itemsize}."
                           + UNITS[form.dtype.name].instruction.split(".", 2)[2])
    copies = ("k_k", "k_v", "k_q", "k_go", "k_stats", "q_q", "q_go", "q_k", "q_v")
    knl = lk.specialize_warps(knl, [f"{x}_tile_rule" for x in copies], registers=32)
    # threads compute weights while matrix units multiply
    knl = lk.delay(knl, "kt", {"k_by_weights.ke.update": "k_scores", "dv_sums.kc.update": "k_by_scores",
                               "k_by_weights": "k_by_scores", "dv_sums": "dk_sums"}, by=0)
    knl = lk.delay(knl, "qt", {"q_by_weights.qe.update": "q_scores", "q_by_weights": "q_by_scores"}, by=0)
    # weights are replaced in the first tiles only
    knl = lk.peel(knl, "qt", first=1 if mask == "full" else 128 // other_keys)
    return lk.peel(knl, "kt", first=keys // queries) if mask == "causal" else knl


@dataclass(frozen=True)
class Gradients:
    """The formula of the gradients; the fields are the arguments of :func:`attention_backward`."""

    dtype: np.dtype
    head: int
    mask: str
    scale: float

    def kernel(self, tiles: tuple[tuple[int, int], tuple[int, int]]) -> lk.LoopKernel:
        """The kernel for *tiles* of so many keys and queries in turn, and of so many queries and keys."""
        (own_keys, queries), (own_queries, keys) = tiles
        causal, dtype, factor = self.mask == "causal", self.dtype.name, self.scale*log2(e)
        # tiles of queries run from the first one that counts on, and tiles of keys from the last one on
        query = f"{queries}*({f'{own_keys // queries}*ka + ' if causal else ''}kt)"
        last = f"{own_queries // keys}*qa + {own_queries // keys - 1}" if causal else f"floor((m - 1)/{keys})"
        key = f"{keys}*({last.replace('floor', '').replace('/', '//')} - qt)"
        row, column = f"{own_keys}*ka + kj", f"{own_queries}*qa + qi"
        unit = max(own_queries, queries)
        every = f"(n + {unit - 1}) // {unit} * {unit}"
        q, k = (tuple(map(p.Variable, x.split())) for x in ("batch heads n", "batch key_heads m"))
        arrays = [*(lk.GlobalArg(x, self.dtype, shape=(*q, self.head)) for x in ("q", "o", "go", "dq")),
                  *(lk.GlobalArg(x, self.dtype, shape=(*k, self.head)) for x in ("k", "v", "dk", "dv")),
                  lk.GlobalArg("log_sum", np.float32, shape=q),
                  lk.TemporaryVariable("stats", np.float32, shape=("batch", "heads", 2, every), address_space="global")]
        return lk.make_kernel([
            f"{{[b, h, r, rd]: 0<=b<batch and 0<=h<heads and 0<=r<floor((n + {unit - 1})/{unit})*{unit} and 0<=rd<{self.head}}}",
            f"{{[ka, kj, kt, ki, kc, kd, ke, kg, kx]: 0<=ka and {own_keys}*ka<m and 0<=kj<{own_keys} and 0<=kt and "
            f"{query}<n and 0<=ki,kc,kg<{queries} and 0<=kd,ke,kx<{self.head}}}",
            f"{{[qa, qi, qt, qj, qc, qd, qe, qx]: 0<=qa and {own_queries}*qa<n and 0<=qi<{own_queries} and 0<=qt<={last} "
            f"and 0<=qj,qc<{keys} and 0<=qd,qe,qx<{self.head}}}"], f"""
{self._rules("k")}
{self._rules("q")}
k_stats(b_, h_, which, row) := stats[b_, h_, which, row]
for b, h, r
    stats[b, h, 0, r] = if(r < n, {log2(e)!r}f*log_sum[b, h, r], 1.0e30f)  {{id=low}}
    stats[b, h, 1, r] = sum(rd, cast(float32, o[b, h, r, rd])*cast(float32, go[b, h, r, rd]))  {{id=delta, if=r < n}}
    stats[b, h, 1, r] = 0  {{id=no_delta, if=r >= n}}
end
for b, h, ka, kj
    <> dk_sums[kx] = 0.0f  {{id=first_dk}}
    <> dv_sums[kx] = 0.0f  {{id=first_dv}}
    for kt
        <> k_s[ki] = sum(kd, k_k_rows(b, h, {row}, kd)*k_q_rows(b, h, {query} + ki, kd))  {{id=k_scores}}
        <> k_dw[ki] = sum(ke, k_v_rows(b, h, {row}, ke)*k_go_rows(b, h, {query} + ki, ke))  {{id=k_by_weights}}
        <> k_w[ki] = exp2_ftz({factor!r}f*k_s[ki] - k_stats(b, h, 0, {query} + ki))  {{id=k_weights}}
        {f"k_w[ki] = 0  {{id=k_mask, if={row} > {query} + ki}}" if causal else ""}
        <{dtype}> k_p[ki] = cast({dtype}, k_w[ki])  {{id=k_factors}}
        <{dtype}> k_ds[ki] = cast({dtype}, k_w[ki]*(k_dw[ki] - k_stats(b, h, 1, {query} + ki)))  {{id=k_by_scores}}
        dv_sums[kx] = dv_sums[kx] + sum(kc, k_p[kc]*k_go_rows(b, h, {query} + kc, kx))  {{id=dv_sums}}
        dk_sums[kx] = dk_sums[kx] + sum(kg, k_ds[kg]*k_q_rows(b, h, {query} + kg, kx))  {{id=dk_sums}}
    end
    dv[b, h, {row}, kx] = dv_sums[kx]  {{id=dv, if={row} < m}}
    dk[b, h, {row}, kx] = {self.scale!r}f*dk_sums[kx]  {{id=dk, if={row} < m}}
end
... gbarrier
for b, h, qa, qi
    <> q_low = stats[b, h, 0, {column}]  {{id=q_low}}
    <> q_delta = stats[b, h, 1, {column}]  {{id=q_delta}}
    <> dq_sums[qx] = 0.0f  {{id=first_dq}}
    for qt
        <> q_s[qj] = sum(qd, q_q_rows(b, h, {column}, qd)*q_k_rows(b, h, {key} + qj, qd))  {{id=q_scores}}
        <> q_dw[qj] = sum(qe, q_go_rows(b, h, {column}, qe)*q_v_rows(b, h, {key} + qj, qe))  {{id=q_by_weights}}
        <> q_w[qj] = exp2_ftz({factor!r}f*q_s[qj] - q_low)  {{id=q_weights}}
        q_w[qj] = 0  {{id=q_mask, if={key} + qj > {column if causal else 'm - 1'}}}
        <{dtype}> q_ds[qj] = cast({dtype}, q_w[qj]*(q_dw[qj] - q_delta))  {{id=q_by_scores}}
        dq_sums[qx] = dq_sums[qx] + sum(qc, q_ds[qc]*q_k_rows(b, h, {key} + qc, qx))  {{id=dq_sums}}
    end
    dq[b, h, {column}, qx] = {self.scale!r}f*dq_sums[qx]  {{id=dq, if={column} < n}}
end
""", [*arrays, "..."], name="attention_backward",
            assumptions="batch, heads, key_heads, n, m >= 1 and heads = key_heads" + (" and n = m" if causal else ""))

    @staticmethod
    def _rules(nest: str) -> str:
        """The rows of the arrays, with zeros beyond the end."""
        return "\n".join(f"{nest}_{x}_rows(b_, h_, row, column) := {x}[b_, h_, row, column] if row < {length} else 0"
                         for x, length in (("q", "n"), ("go", "n"), ("k", "m"), ("v", "m")))


def _by_rows(knl: lk.LoopKernel, form: Gradients) -> lk.LoopKernel:
    """The launch for the sums of rows: neighbouring threads have vectors of a row."""
    vector = items_a_thread(form.dtype)
    knl = lk.split_iname(knl, "rd", vector, outer_iname="rd_lane", inner_iname="rd_item", outer_tag="l.0",
                         inner_tag="vec")
    knl = lk.split_iname(knl, "r", 256*vector // form.head, outer_tag="g.0", inner_tag="l.1")
    return lk.tag_inames(knl, {"h": "g.1", "b": "g.2"})


def _by_keys(knl: lk.LoopKernel, form: Gradients, stages: int) -> lk.LoopKernel:
    """The launch for the gradients of *k* and *v*: a block has a tile of keys, and runs over the queries."""
    knl = _on_warpgroups(knl, form, "k", "j", "dceg", ["k_p", "k_ds"], ["dv_sums", "dk_sums"])
    knl = _tile(knl, "k_k", ["kj_warpgroup", "kj_box", "kd_step", "kd_box"], form.dtype)
    knl = _tile(knl, "k_v", ["kj_warpgroup", "kj_box", "ke_step", "ke_box"], form.dtype)
    knl = _tile(knl, "k_q", ["ki", "kd_step", "kd_box", "kg_step", "kg_box", "kx"], form.dtype)
    knl = _tile(knl, "k_go", ["ki", "ke_step", "ke_box", "kc_step", "kc_box", "kx"], form.dtype)
    knl = lk.precompute(knl, "k_stats", ["ki"], temporary_name="k_stats_tile", default_tag=None, dtype=np.float32)
    knl = lk.tensorize(knl, "k_stats_tile_rule", "tma.load")
    knl = lk.pipeline(knl, "kt", stages, temporaries=["k_q_tile", "k_go_tile", "k_stats_tile"], ahead=0)
    return knl


def _by_queries(knl: lk.LoopKernel, form: Gradients, stages: int) -> lk.LoopKernel:
    """The launch for the gradients of *q*: a block has a tile of queries, and runs over the keys."""
    knl = _on_warpgroups(knl, form, "q", "i", "dce", ["q_ds"], ["dq_sums"])
    knl = _tile(knl, "q_q", ["qi_warpgroup", "qi_box", "qd_step", "qd_box"], form.dtype)
    knl = _tile(knl, "q_go", ["qi_warpgroup", "qi_box", "qe_step", "qe_box"], form.dtype)
    knl = _tile(knl, "q_k", ["qj", "qd_step", "qd_box", "qc_step", "qc_box", "qx"], form.dtype)
    knl = _tile(knl, "q_v", ["qj", "qe_step", "qe_box"], form.dtype)
    knl = lk.pipeline(knl, "qt", stages, temporaries=["q_k_tile", "q_v_tile"], ahead=0)
    return knl


def _on_warpgroups(knl: lk.LoopKernel, form: Gradients, nest: str, row: str, sums_over: str, factors: list[str],
                   sums: list[str]) -> lk.LoopKernel:
    """The loops of *nest* on the threads of a block, each warpgroup with 64 rows of the tile."""
    rows = f"{nest}{row}"
    knl = lk.split_iname(knl, rows, ROWS, outer_iname=f"{rows}_warpgroup", inner_iname=f"{rows}_box", outer_tag="l.0")
    knl = lk.tag_inames(knl, {f"{nest}a": "g.0"})
    knl = lk.prioritize_loops(knl, f"b, h, {nest}a, {rows}_warpgroup, {nest}t, {rows}_box")
    # products take strips of 32 bytes of their factors
    step = STEP // form.dtype.itemsize
    for x in (f"{nest}{x}" for x in sums_over):
        knl = lk.split_iname(knl, x, step, outer_iname=f"{x}_step", inner_iname=f"{x}_box", outer_tag="unr")
    # factors stay in the registers of the threads that compute them
    knl = lk.privatize(knl, f"{rows}_box", only_var_names=factors)
    knl = lk.set_temporary_address_space(knl, factors, "warp")
    # matrix units add to the sums in place
    for s in sums:
        knl = lk.start_from_addend(knl, s)
    return knl


def _tile(knl: lk.LoopKernel, rows: str, sweep: list[str], dtype: np.dtype) -> lk.LoopKernel:
    """A tile of the rule *rows*, which TMA copies: its rows of 128 bytes are swizzled as the matrix units read them."""
    knl = lk.precompute(knl, f"{rows}_rows", sweep, temporary_name=f"{rows}_tile", default_tag=None, dtype=dtype)
    return lk.tensorize(knl, f"{rows}_tile_rule", f"tma.load.swizzle{ROW}")
