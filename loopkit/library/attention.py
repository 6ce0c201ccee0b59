"""Attention by the warpgroups of Hopper: the softmax of one tile of keys beside the products of another one."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, log2

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p

import loopkit as lk
from loopkit.kernel.annotations import checked
from loopkit.library.defaults import DEVICE, known_dtype, measured
from loopkit.library.matrix_units import ROW, UNITS
from loopkit.library.warpgroups import ROWS, STEP, strip
from loopkit.transform.step import require_positive

#: The pairs of queries and keys that count.
MASKS = ("full", "causal", "window")

#: Less than any finite score of arrays below 1e13. It replaces the scores of pairs that do not count.
LEAST = "-1.0e30"


@checked
def attention(dtype: npt.DTypeLike = "bfloat16", *, head: int, mask: str = "full", window: int | None = None,
              heads_shared: int | str = 1, bias: bool = False, softcap: float | None = None,
              scale: float | None = None, length: int | None = None, rows: int | None = None, keys: int | None = None,
              stages: int | None = None, multiprocessors: int | None = None, log_sum: bool = False) -> lk.LoopKernel:
    """A kernel for attention: ``o[b, h, i] = sum(j, w[i, j]*v[b, h, j])``, where the weights *w* of a query ``i`` are
    the softmax of the scores ``scale*sum(d, q[b, h, i, d]*k[b, h, j, d])``.

    A block has a tile of queries and runs over tiles of keys, from the last one to the first. Each thread keeps scores,
    weights and results in registers. It has the largest score of its queries so far. In each tile, it scales its sums
    to the new one. Matrix units compute the scores of one tile of keys, and the results of the one before, while
    threads of another warpgroup compute weights: with more than 64 *rows*, warpgroups take turns. A producer thread
    lets TMA copy tiles. The kernel is for GPUs of ``CudaTarget("sm_90a")``.

    The arrays are ``q[batch, heads, n, head]``, ``k[batch, key_heads, m, head]``, *v* like *k* and *o* like *q*. Sums
    are in float32, and weights in *dtype* as factors of *v*.

    :arg dtype: bfloat16 or float16, of all arrays.
    :arg head: the length of the last axes, a multiple of 64, at most 256.
    :arg mask: ``"full"``: all keys count; ``"causal"``: those up to the query, ``j <= i``;
        ``"window"``: the last *window* ones of these, that of the query included. With a mask, *m* is *n*.
    :arg heads_shared: the number of heads of *q* for each head of *k* and *v*; ``"all"``: these have one head.
    :arg bias: add ``bias[0, h, i, j]`` to the scores, may be ``-inf``; its shape is ``[1, heads, n, m]``. A query whose
        biases are all ``-inf`` has the result NaN.
    :arg softcap: a bound *c* of scores ``x``, which become ``c*tanh(x/c)``.
    :arg scale: a positive number; default: ``head**-0.5``.
    :arg length: the usual number of keys, for which tiles and blocks are chosen. Results do not depend on it.
    :arg rows: the queries of a block, a multiple of 64; *keys*: those of a tile, a multiple of 16 that divides *rows*
        if there is a mask; *stages*: tiles of keys in shared memory at once, two or more.
    :arg multiprocessors: those of the GPU, for :func:`~loopkit.persistent` blocks, each with several tiles of queries;
        0: each block has one. Default: those of the measured GPU if such blocks are faster there for *length*, else 0.
    :arg log_sum: write ``log_sum[b, h, i]`` too, in float32: the logarithm of the sum of the exponentials of a query's
        scores, which :func:`attention_backward` needs.
    :raises PreconditionError: an argument cannot have such a value, or arguments exclude each other.

    >>> knl = lk.library.attention(head=64, mask="causal")
    >>> print(*knl.argument_by_name["o"].shape)
    batch heads n 64
    """
    form = Attention(known_dtype(dtype), head, mask, scale, window, heads_shared, bias, softcap, log_sum)
    form.require_known()
    name = "attention" if mask == "full" else "masked_attention"
    tiles, most, stages, blocks, length = measured(name, tiles=None, persistent=None, stages=stages,
                                                   multiprocessors=multiprocessors, length=length)
    size = min((x for x in tiles if int(x) >= head), key=int)
    # with a bias of all pairs, threads lack the registers
    few = require_positive(length, "keys") <= most[size] and not (bias and mask == "full")
    blocks = blocks if few or multiprocessors is not None else 0
    # as those of more than two warpgroups do with a bias, and in blocks that run several tiles
    rows, keys = rows or (min(tiles[size][0], 2*ROWS) if blocks or bias else tiles[size][0]), keys or tiles[size][1]
    form.require_tiles(rows, keys, stages)
    return on_warpgroups(form.kernel(rows, keys), form, rows, keys, stages, blocks,
                         form.heads_at_once(length) if blocks and mask == "causal" else 0)


@dataclass(frozen=True)
class Scores:
    """The formula of scores, of attention and of its gradients; the fields are arguments of both."""

    dtype: np.dtype
    head: int
    mask: str
    scale: float | None

    def require_known(self) -> None:
        """:raises PreconditionError: an argument has an unknown value."""
        if self.dtype.name not in ("bfloat16", "float16"):
            raise lk.PreconditionError(f"The arrays of attention are bfloat16 or float16, and not {self.dtype}.",
                                       subject="dtype", hint="dtype='bfloat16'")
        require_factor(self.scale, "scale")

    def require_tile(self, *lengths: tuple[str, str, int], stages: int) -> None:
        """:raises PreconditionError: a block cannot have a tile of these two *lengths*, each with its name and its
        argument: rows of its own, and rows over which it runs.
        """
        for (name, subject, length), unit, most in zip(lengths, (ROWS, 16), (192, 256), strict=True):
            if require_positive(length, subject) % unit or length > most:
                raise lk.PreconditionError(f"The {name} is a multiple of {unit}, at most {most}, and not {length}.",
                                           subject=subject, hint=f"use {ROWS}")
        (first, _, rows), (second, subject, keys) = lengths
        if self.mask != "full" and rows % keys:
            raise lk.PreconditionError(f"With a mask, the {second} divides the {first}, and {keys} does not divide "
                                       f"{rows}.", subject=subject, hint=f"use {ROWS}")
        if stages < 2:
            raise lk.PreconditionError(f"Warpgroups need two tiles or more, and not {stages}.", subject="stages",
                                       hint="stages=2")

    @property
    def scaling(self) -> float:
        """The factor of the products of queries and keys."""
        return self.head**-0.5 if self.scale is None else float(self.scale)

    @property
    def m(self) -> str:
        """The number of keys: with a mask, there are as many as queries."""
        return "m" if self.mask == "full" else "n"


def require_factor(number: float | None, what: str) -> None:
    """:raises PreconditionError: *number*, the argument *what*, is not positive and finite."""
    if number is not None and not 0 < number < float("inf"):
        raise lk.PreconditionError(f"The argument '{what}' is a positive number, and not {number}.", subject=what,
                                   hint=f"leave out {what}")


@dataclass(frozen=True)
class Attention(Scores):
    """The formula of attention; the fields are the arguments of :func:`attention`."""

    window: int | None
    heads_shared: int | str
    bias: bool
    softcap: float | None
    log_sum: bool = False

    def require_known(self) -> None:
        """:raises PreconditionError: an argument has an unknown value."""
        super().require_known()
        if require_positive(self.head, "head") % 64 or self.head > 256:
            raise lk.PreconditionError(f"The length of a head is a multiple of 64, at most 256, and not {self.head}.",
                                       subject="head", hint="pad q, k and v with zeros")
        if self.mask not in MASKS:
            raise lk.PreconditionError(f"There is no mask {self.mask!r}.", subject="mask",
                                       hint=f"use one of {', '.join(map(repr, MASKS))}")
        if (self.window is None) is (self.mask == "window"):
            raise lk.PreconditionError("A window is for the mask 'window', which needs one.", subject="window",
                                       hint="mask='window', window=1024")
        if self.window is not None:
            require_positive(self.window, "window")
        if isinstance(self.heads_shared, str) and self.heads_shared != "all":
            raise lk.PreconditionError(f"heads_shared is a number of heads or 'all', and not {self.heads_shared!r}.",
                                       subject="heads_shared", hint="heads_shared='all'")
        if not isinstance(self.heads_shared, str):
            require_positive(self.heads_shared, "heads that share keys")
        require_factor(self.softcap, "softcap")

    def require_tiles(self, rows: int, keys: int, stages: int) -> None:
        """:raises PreconditionError: a block cannot have such tiles."""
        self.require_tile(("number of rows", "rows", rows), ("number of keys", "keys", keys), stages=stages)

    def heads_at_once(self, length: int) -> int:
        """How many heads persistent blocks run together, so that the L2 cache holds their keys and values."""
        counts, cached = measured("masked_attention", heads=None, cached=None)
        shared = cached if self.heads_shared == "all" else int(self.heads_shared)
        most = shared*cached // (2*self.dtype.itemsize*self.head*length)
        return max(int(x) for x in counts if x <= max(most, min(counts)))

    def kernel(self, rows: int, keys: int) -> lk.LoopKernel:
        """The kernel for tiles of so many queries and keys."""
        row = f"{rows}*a + i"
        # tiles run from the last one on, in which scores of keys beyond the end are replaced
        last = f"floor((m - 1)/{keys})" if self.mask == "full" else f"{rows // keys}*a + {rows // keys - 1}"
        key = f"{keys}*({last.replace('floor', '').replace('/', '//')} - t)"
        first = f" and {keys}*({last} - t) + {keys} > {rows}*a - {self.window} + 1" if self.window else ""
        return lk.make_kernel(
            f"{{[b, h, a, i, t, j, c, d, e]: 0<=b<batch and 0<=h<heads and 0<=a and {rows}*a<n and 0<=i<{rows} and "
            f"0<=t<={last} and 0<=j,c<{keys} and 0<=d,e<{self.head}{first}}}", f"""
q_rows(b_, h_, row, column) := q[b_, h_, row, column] if row < n else 0
k_rows(b_, h_, row, column) := k[b_, h_, row, column] if row < {self.m} else 0
v_rows(b_, h_, row, column) := v[b_, h_, row, column] if row < {self.m} else 0
for b, h, a, i
{self.of_query(row, key, (row, f"{key} + "), ("n", self.m), square=rows == keys)}
end
""", self.arguments(self.m), name="attention", assumptions=self.assumptions(self.m))

    def of_query(self, row: str, key: str, rules: tuple[str, str], ends: tuple[str, str], *, square: bool) -> str:
        """The statements for a query: in each tile of keys, the sums are scaled to the largest score so far.

        :arg row: the query; *key*: the first key of tile ``t``; *ends*: those of queries and keys.
        :arg rules: the query as an argument of its rule, and what precedes the iname of a key as an argument of theirs.
        :arg square: a tile has as many keys as queries. So a mask leaves each query a key of each tile.
        """
        factor, score = self._score(row, f"{key} + j", ends)
        (own, first), shared = rules, self.heads_shared
        head = "0" if shared == "all" else "h" if shared == 1 else f"h // {shared}"
        # if no key of a query counts so far, its weights are 0, and not exp2 of a rounding error
        low = f"{factor!r}f*next"
        low = f"if(next <= {LEAST}f, 0.0f, {low})" if self.bias or (self.mask != "full" and not square) else low
        log_sum = f"""
    log_sum[b, h, {row}] = {factor/log2(e)!r}f*top + log(total)  {{id=log_sum, if={row} < {ends[0]}}}"""
        return f"""\
    <> top = {LEAST}f  {{id=first_top}}
    <> total = 0.0f  {{id=first_total}}
    <> sums[e] = 0.0f  {{id=first_sums}}
    for t
        <> s[j] = {score.format(x=f"sum(d, q_rows(b, h, {own}, d)*k_rows(b, {head}, {first}j, d))")}  {{id=scores}}
        {self._masked(row, f"{key} + j", ends[1])}
        <> next = fmax(top, max(j, s[j]))  {{id=next}}
        <> low = {low}  {{id=low}}
        <> shrink = exp2_ftz({factor!r}f*top - low)  {{id=shrink}}
        <> w[j] = exp2_ftz({factor!r}f*s[j] - low)  {{id=weights}}
        total = total*shrink + sum(j, w[j])  {{id=total}}
        <{self.dtype.name}> p[j] = cast({self.dtype.name}, w[j])  {{id=factors}}
        sums[e] = sums[e]*shrink + sum(c, p[c]*v_rows(b, {head}, {first}c, e))  {{id=sums}}
        top = next  {{id=top}}
    end
    <> share = 1.0f/total  {{id=share}}
    o[b, h, {row}, e] = sums[e]*share  {{id=result, if={row} < {ends[0]}}}{log_sum if self.log_sum else ""}"""

    def arguments(self, many: str, *further: lk.GlobalArg) -> list[lk.GlobalArg | str]:
        """The arrays, with *many* keys, and *further* ones before the results."""
        batch, heads, key_heads, n, m = map(p.Variable, ("batch", "heads", "key_heads", "n", many))
        own, keys = (batch, heads, n, self.head), (batch, key_heads, m, self.head)
        return [lk.GlobalArg("q", self.dtype, shape=own), lk.GlobalArg("k,v", self.dtype, shape=keys),
                *([lk.GlobalArg("bias", self.dtype, shape=(1, heads, n, m))] if self.bias else []), *further,
                lk.GlobalArg("o", self.dtype, shape=own),
                *([lk.GlobalArg("log_sum", np.dtype(np.float32), shape=own[:3])] if self.log_sum else []), "..."]

    def assumptions(self, *sizes: str) -> str:
        """The conditions on the sizes, *sizes* among them, which hold in each call."""
        heads = "key_heads = 1" if self.heads_shared == "all" else f"heads = {self.heads_shared}*key_heads"
        return f"{', '.join(dict.fromkeys(('batch', 'heads', 'key_heads', 'n', *sizes)))} >= 1 and {heads}"

    def _score(self, row: str, key: str, ends: tuple[str, str]) -> tuple[float, str]:
        """The factor of scores before 2**x, and the formula of a score in terms of a sum ``x``."""
        factor = self.scaling*log2(e)
        if self.softcap is None and not self.bias:
            return factor, "{x}"
        score = f"{self.scaling!r}f*{{x}}"
        if self.softcap is not None:
            # tanh(x) = 1 - 2/(1 + e**(2*x))
            cap = float(self.softcap)
            score = f"{cap!r}f - {2*cap!r}f/(1 + exp2_ftz({2*factor/cap!r}f*{{x}}))"
        if self.bias:
            score += f" + if({row} < {ends[0]} and {key} < {ends[1]}, bias[0, h, {row}, {key}], 0)"
        return log2(e), score

    def _masked(self, row: str, key: str, end: str) -> str:
        """The statement that replaces the scores of pairs that do not count."""
        if self.mask == "window":
            return f"s[j] = if({key} <= {row} and {key} > {row} - {self.window}, s[j], {LEAST}f)  {{id=mask}}"
        beyond = f"{key} > {row}" if self.mask == "causal" else f"{key} >= {end}"
        return f"s[j] = {LEAST}f  {{id=mask, if={beyond}}}"


def on_warpgroups(knl: lk.LoopKernel, form: Attention, rows: int, keys: int, stages: int, blocks: int, group: int,
                  assume: str | None = None) -> lk.LoopKernel:
    """The kernel on a GPU with blocks of *rows* queries, in tiles of *keys*.

    :arg blocks: so many run all tiles of queries; 0: each has one. *group*: those of so many heads run at once; 0: all.
    :arg assume: why blocks write elements of their own, if a table in memory has the tiles. Then threads store their
        results, and the products with v of a tile are not delayed: data bounds the loop over tiles of keys.
    """
    # with a causal mask, the last queries have most keys, and come first
    knl = lk.reverse(knl, "a", assume=assume) if form.mask == "causal" else knl
    knl = lk.tag_inames(knl, dict(zip("hba" if group else "ahb", ("g.0", "g.1", "g.2"), strict=True)), assume=assume)
    knl = rows_on_warpgroups(knl, form, "", "i", "dc", ["p"], ["sums"])
    # one thread lets TMA copy the tiles, whose rows of 128 bytes are swizzled as the matrix units read them
    for x, sweep, inames in (("q", ["i_warpgroup", "i_box", "d_step", "d_box"], ["q_i", "q_d"]),
                             ("k", ["j", "d_step", "d_box"], ["k_j", "k_d"]),
                             ("v", ["c_step", "c_box", "e"], ["v_j", "v_e"])):
        knl = strip(knl, x, sweep, inames)
    knl = lk.set_accumulator_dtype(knl, np.float32, within="id:scores or id:sums")
    knl = lk.tensorize(knl, "scores", UNITS[form.dtype.name].of_warpgroup(keys))
    knl = lk.tensorize(knl, "sums", UNITS[form.dtype.name].of_warpgroup(form.head))
    # TMA stores the results from shared memory, if that has room for them beside the tiles
    if assume is None and 2*form.dtype.itemsize*form.head*(rows + stages*keys) <= DEVICE["warpgroups"]["shared_bytes"]:
        knl = lk.store_via(knl, "o", "i_warpgroup, i_box_warp, i_box_part, i_box_lane, e_part, e_lane, e_item",
                           temporary_name="o_tile", engine="tma", swizzle=ROW)
    # a thread of its own copies tiles as soon as there is room, and leaves registers to several warpgroups
    knl = lk.pipeline(knl, "t", stages, temporaries=["k_tile", "v_tile"], ahead=0)
    knl = lk.specialize_warps(knl, ["q_tile_rule", "k_tile_rule", "v_tile_rule"], registers=32 if rows > ROWS else 0)
    # products with v run on while threads compute the weights of the next tile
    if assume is not None:
        return knl
    knl = lk.delay(knl, "t", {"sums.c.update": "scores", "sums": "factors"})
    # matrix units multiply for one warpgroup while the threads of another one compute weights
    knl = lk.take_turns(knl, "scores.d.update", "sums.c.update") if rows > ROWS else knl
    # the next tile's copies arrive while threads finish a tile; the longest tiles of some heads come first
    return lk.persistent(knl, blocks, group=group) if blocks else knl


def rows_on_warpgroups(knl: lk.LoopKernel, form: Scores, nest: str, row: str, over: str, factors: Sequence[str],
                       sums: Sequence[str]) -> lk.LoopKernel:
    """The loops of a *nest* in a block, which has a tile of rows: each warpgroup has 64 of them.

    :arg nest: the first letters of its inames; *row*: the iname of rows, without them; *over*: those of sums.
    :arg factors: the values of a thread that matrix units multiply; *sums*: those to which they add.
    """
    rows, step = f"{nest}{row}", STEP // form.dtype.itemsize
    knl = lk.split_iname(knl, rows, ROWS, outer_iname=f"{rows}_warpgroup", inner_iname=f"{rows}_box", outer_tag="l.0")
    knl = lk.prioritize_loops(knl, f"b, h, {nest}a, {rows}_warpgroup, {nest}t, {rows}_box")
    # products take strips of 32 bytes of their factors
    for x in over:
        knl = lk.split_iname(knl, f"{nest}{x}", step, outer_iname=f"{nest}{x}_step", inner_iname=f"{nest}{x}_box",
                             outer_tag="unr")
    # such factors stay in the registers of the threads that compute them
    knl = lk.privatize(knl, f"{rows}_box", only_var_names=factors)
    knl = lk.set_temporary_address_space(knl, factors, "warp")
    # matrix units add to the sums in place
    for x in sums:
        knl = lk.start_from_addend(knl, x)
    return knl
