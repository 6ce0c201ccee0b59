"""tensorize: lets one instruction of a warp execute a nest of loops around a statement."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from math import prod

import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import accesses_by_array, expanded_expression
from loopkit.analysis.constructors import with_other_axes
from loopkit.analysis.legality import require_legal
from loopkit.analysis.shapes import array_shapes
from loopkit.errors import PreconditionError, UnknownNameError, require_known
from loopkit.expr.mappers import array_of, elements_of, map_children, subexpressions, variables
from loopkit.instructions.boxes import BoxCopy
from loopkit.instructions.fragments import Digit, Digits, Fragment
from loopkit.instructions.matrix_moves import MatrixMove
from loopkit.instructions.mma import Mma
from loopkit.instructions.nests import NestInstruction
from loopkit.instructions.products import Product
from loopkit.instructions.table import NEST_INSTRUCTIONS
from loopkit.kernel.data import AddressSpace
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode, Statement
from loopkit.kernel.tags import InstructionTag, LocalTag, UnrollTag, VecTag
from loopkit.transform.array_axes import group_and_place
from loopkit.transform.boxes import copied_by_boxes
from loopkit.transform.iname import split_levels
from loopkit.transform.matrix_moves import moved_by_lanes
from loopkit.transform.nest_loops import Tags, executed_by, extent_from_zero, with_loop_order
from loopkit.transform.step import iname_list, require_untagged, transform
from loopkit.transform.tags import tagged


@transform
def tensorize(kernel: LoopKernel, statement: str, instruction: str, inames: str | Iterable[str] | None = None, *,
              assume: str | None = None, unsafe: bool = False) -> LoopKernel:
    """Let one *instruction* execute the loops around *statement*: by a warp, a warpgroup or one thread.

    **Products.** ``"mma.m16n8k16.f32.bf16"`` computes a box of ``sum(k, a[i, k]*b[k, j])``: 16 rows, 8 columns and 16
    steps, with sums in float32 and factors in bfloat16. Other names have other shapes, and other types of PTX:
    ``f64``, ``tf32``, ``f16``, ``e4m3``, ``e5m2``, ``s8``, ``u8``. The fragment layout of the instruction splits the
    three inames of the box. Those of lanes get the tag ``l.0``, and those of registers ``instr`` or ``vec``.

    Each lane loads the factors that it provides from any array. A factor may also be in a temporary of the address
    space ``"warp"``, the registers of a warp. One statement copies it (``add_prefetch(...,
    temporary_address_space="warp", default_tag=None)``). The layout then also splits its axes and the loops of the
    copy. ``"ldmatrix.x4"`` executes such a copy from shared memory: four matrices of 8 rows of 16 bytes, ``.x2`` two
    and ``.x1`` one. ``.trans`` loads columns, for elements of 2 bytes. ``"stmatrix.x4"`` (sm_90) stores such matrices,
    from values in registers.

    **Products of warpgroups.** Four warps start ``"wgmma.m64n256k16.f32.bf16"`` (sm_90a): 64 rows, 8 to 256 columns,
    and 32 bytes of steps. Both factors are in shared memory, in rows of 128 bytes with a :func:`swizzle` in pieces of
    16 bytes, or in core matrices of 8 rows of 16 bytes. Factors are K-major; those of 2 bytes may also be MN-major.
    The left factor, that of the rows, may be in a temporary of the address space ``"warp"`` instead. A copy fills it,
    by ``"ldmatrix.x4"`` or plain loads, or another product of the same lanes, tensorized before.

    **Boxes.** ``"tma.load"`` (sm_90) copies a box from an array in global memory to a temporary in shared memory, with
    zeros outside of the array. Along all axes but the last, its elements may be 1 to 8 apart in the array. The copy is
    asynchronous: threads wait for the phase of an mbarrier before they read the tile. The rows of the array begin at
    multiples of 16 bytes. The box fills the last axes of the temporary, in the order of the array's axes; one of
    several boxes there has a multiple of 128 bytes. ``"tma.store"`` copies a box back, as far as it lies inside of the
    array; ``"tma.add"`` adds it, for atomic updates. No other statement of the launch writes or later reads it.
    ``"tma.load.swizzle128"`` and ``"tma.store.swizzle128"`` give the temporary a layout that ``wgmma`` reads: rows of
    128 bytes whose pieces of 16 bytes are permuted (:func:`swizzle`); other names end with ``64`` or ``32``. Wider rows
    become several boxes, one below another. :func:`add_prefetch` and :func:`store_via` make such copies in one step.

    The C target and OpenCL run the loops. A product of the instruction may differ from theirs by rounding: it adds the
    terms of a box in another order, and does not round each term. A partial tile without elements for some lanes runs
    the loops, too, or is refused if a factor is in registers. :func:`pad_domain` gives its lanes all elements.

    :arg statement: the id of a statement with a sum, or of a copy.
    :arg inames: the inames of the rows, the columns and the steps of a product, for example ``"i_box, j_box, k_box"``.
        They start at 0 and have the extents of the shape. Default: the innermost ones that do. For a box its inames;
        default: all without a tag that subscript the temporary.
    :raises UnknownNameError: there is no such statement, instruction or iname.
    :raises PreconditionError: an iname has a tag or another number of values, or *statement* is neither a sum of
        products nor such a copy.
    :raises IllegalTransformError: a dependence would be broken; with its witness.

    >>> knl = lk.make_kernel("{[i, j, k]: 0<=i<8 and 0<=j<8 and 0<=k<4}", "c[i, j] = sum(k, a[i, k]*b[k, j])")
    >>> print(knl.statements_text)
    for i, j
      c[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}
    end
    >>> knl = lk.tensorize(lk.add_dtypes(knl, {"a,b,c": np.float64}), "insn", "mma.m8n8k4.f64")
    >>> print(knl.statements_text)
    for i [l.0], j_lane [l.0], j_item [vec]
      c[i, 2*j_lane + j_item] = sum(k, a[i, k]*b[k, 2*j_lane + j_item])  {id=insn, by=mma.m8n8k4.f64}
    end
    >>> text = str(lk.generate_code(knl, target="cuda"))
    >>> print(*(line for line in text.splitlines() if "mma_m8n8k4_f64(acc_k" in line))
        mma_m8n8k4_f64(acc_k[0], acc_k[1], a[4*i + j_lane], b[8*j_lane + i]);
    """
    require_known("statement", [statement], kernel.statement_by_id)
    found = NEST_INSTRUCTIONS.get(instruction)
    if found is None:
        raise UnknownNameError("instruction", instruction, NEST_INSTRUCTIONS, where="the GPU")
    updates = [n.update for n in kernel.reductions.values() if n.final == statement]
    if any(kernel.statement_by_id[s].has_nest for s in (statement, *updates)):
        raise PreconditionError(f"An instruction executes '{statement}' already.", subject=statement,
                                hint="tensorize a statement once")
    result, tags = _executed(kernel, statement, found, inames)
    result = tagged(result, tags, "tensorize", force=True, assume=assume, unsafe=unsafe)
    return require_legal(result, f"tensorize({statement!r}, {instruction!r})", assume=assume, unsafe=unsafe)


def _executed(kernel: LoopKernel, statement: str, instruction: NestInstruction, inames: str | Iterable[str] | None
              ) -> tuple[LoopKernel, Tags]:
    """*kernel* where *instruction* executes the loops around *statement*, and the tags of their inames."""
    match instruction:
        case Product():
            return _by_products(kernel, statement, instruction, inames)
        case MatrixMove():
            return moved_by_lanes(kernel, statement, instruction)
        case BoxCopy():
            return copied_by_boxes(kernel, statement, instruction, inames)
        case _:
            raise AssertionError(instruction)


# Products

def _by_products(kernel: LoopKernel, statement: str, mma: Product, given: str | Iterable[str] | None
             ) -> tuple[LoopKernel, Tags]:
    node, factors = _sum_of_products(kernel, statement)
    update, held = node.update, [any(_is_fragment(kernel, e) for e in elements_of(part, kernel.temporaries))
                                 for part in factors]
    # wgmma takes the factor of the rows from registers
    turned = held == [False, True] and not isinstance(mma, Mma)
    names = _boxes(kernel, node, factors[::-1] if turned else factors, mma, given)
    tags: Tags = {}
    parts = list[tuple[str, ...]]()
    # a descriptor needs no digits of a step
    steps = mma.left.columns if any(held) or isinstance(mma, Mma) else (
        Digit(mma.shape[2], of_lanes=False, place=0),)
    for x, digits in zip(names, (mma.sums.rows, mma.sums.columns, steps), strict=True):
        if not isinstance(x, str):
            parts.append(x)                 # another product has split them
            continue
        kernel, own = _split(kernel, x, digits)
        parts.append(own)
        of_steps = x == names[2]
        for name, d in zip(own, digits, strict=True):
            is_item = d is digits[-1] and not d.of_lanes and d.extent % 2 == 0
            tags[name] = InstructionTag() if of_steps else LocalTag(0) if d.of_lanes \
                else VecTag() if is_item else InstructionTag()
    rows, columns, in_steps = ({*own} for own in parts)
    kernel = executed_by(kernel, update, mma)
    operand = expanded_expression(kernel, kernel.statement_by_id[update])
    of_right = [(mma.right, (in_steps, columns))] if isinstance(mma, Mma) else []
    for layout, along in ((mma.left, (rows, in_steps)), *of_right):
        for e in elements_of(operand, kernel.temporaries):
            other = rows | columns
            if _is_fragment(kernel, e) \
                    and variables(e) & other == variables(e) & (along[0] | along[1]) & other and variables(e) & other:
                kernel, more = _fragment(kernel, e, layout, along)
                tags |= more
    return kernel, tags


def _sum_of_products(kernel: LoopKernel, statement: str) -> tuple[ReductionNode, tuple[Expression, Expression]]:
    """The sum in *statement*, and its two factors; :raises PreconditionError: it is not a sum of products."""
    node = next((n for n in kernel.reductions.values() if n.final == statement and n.operation == "sum"), None)
    if node is None:
        raise PreconditionError(f"'{statement}' has no sum.", subject=statement,
                                hint="this instruction computes c[i, j] = sum(k, a[i, k]*b[k, j])")
    operand = expanded_expression(kernel, kernel.statement_by_id[node.update])
    if not isinstance(operand, p.Product) or len(operand.children) != 2:
        raise PreconditionError(f"The sum of '{statement}' adds up {operand}, which is not a product of two factors.",
                                subject=statement, hint="compute such factors first: precompute(knl, rule, ...)")
    return node, (operand.children[0], operand.children[1])


def _boxes(kernel: LoopKernel, node: ReductionNode, factors: tuple[Expression, Expression], mma: Product,
           given: str | Iterable[str] | None) -> tuple[_Inames, _Inames, str]:
    """The inames of the rows, the columns and the steps; several of rows or columns that another product has split."""
    update = kernel.statement_by_id[node.update]
    left, right = (variables(e) & {*update.inames} for e in factors)
    extents = {x: extent_from_zero(kernel, x) for x in update.inames}
    what = ("rows", "columns", "steps")
    names: Sequence[_Inames]
    if given is not None:
        names = iname_list(kernel, given)
        if len(names) != 3:
            raise PreconditionError(f"A product needs three inames, and not {len(names)}.", subject="inames",
                                    hint="inames='i, j, k': those of the rows, the columns and the steps")
    else:
        names = _inames_of_boxes(kernel, node, factors, mma)
    for x, extent, name in zip(names, mma.shape, what, strict=True):
        if isinstance(x, tuple):
            continue                        # another product has split them
        if not x:
            kind = "of its sum" if name == "steps" else "in one factor only"
            raise PreconditionError(
                f"'{node.final}' has no iname for the {name} of '{mma.name}': one {kind}, without a tag, that runs "
                f"from 0 to {extent - 1}.", subject=node.final,
                hint=f"split_iname(knl, ..., {extent}): the inner iname has these values")
        require_untagged(kernel, x, "executed by an instruction")
        if extents.get(x) != extent:
            raise PreconditionError(f"'{x}' must run from 0 to {extent - 1}, over the {name} of '{mma.name}'.",
                                    subject=x, hint=f"split_iname(knl, '{x}', {extent}) and give the inner iname")
    i, j, k = names
    assert isinstance(k, str)
    if k not in node.inames:
        raise PreconditionError(f"'{k}' is not an iname of the sum of '{node.final}'.", subject=k,
                                hint=f"the sum is over {', '.join(node.inames)}")
    rows, columns = ({*x} if isinstance(x, tuple) else {x} for x in (i, j))
    own = [(rows | columns) & one for one in (left, right)]
    if own not in ([rows, columns], [columns, rows]):
        raise PreconditionError(
            f"The operand of the sum of '{node.final}' is not an element for each '{_joined_inames(i)}' times one for "
            f"each '{_joined_inames(j)}'.", subject=node.name,
            hint="compute such elements first: precompute(knl, rule, ...)")
    return i, j, k


def _joined_inames(inames: str | tuple[str, ...]) -> str:
    return inames if isinstance(inames, str) else ", ".join(inames)


#: The iname of an axis of a product; several, if another product split it; ``""``: there is none.
_Inames = str | tuple[str, ...]


def _inames_of_boxes(kernel: LoopKernel, node: ReductionNode, factors: tuple[Expression, Expression], mma: Product
                     ) -> list[_Inames]:
    """The innermost inames that can be those of the rows, the columns and the steps."""
    update = kernel.statement_by_id[node.update]
    plain = [x for x in reversed(update.inames) if x not in kernel.tags]
    step = next((x for x in plain if x in node.inames and extent_from_zero(kernel, x) == mma.shape[2]), "")
    both = [variables(e) & {*update.inames} - {*node.inames} for e in factors]
    # the rows may be those of either factor
    ways = [[_iname_along(kernel, plain, both[k] - both[1 - k], factors[k], digits)
             for k, digits in zip(order, (mma.sums.rows, mma.sums.columns), strict=True)] for order in ((0, 1), (1, 0))]
    return [*max(ways, key=all), step]


def _iname_along(kernel: LoopKernel, plain: Sequence[str], own: AbstractSet[str], factor: Expression, digits: Digits
                ) -> _Inames:
    """The iname of the rows, or of the columns, in *factor*: one of *own*; or those of its *digits*."""
    extent = prod(d.extent for d in digits)
    if found := next((x for x in plain if x in own and extent_from_zero(kernel, x) == extent), ""):
        return found
    for e in (e for element in subexpressions(factor) if isinstance(element, p.Subscript) for e in element.index_tuple):
        rest, names = _over_boxes(e), list[str]()
        for d in reversed(digits):
            rest, place = group_and_place(kernel, rest, d.extent)
            if isinstance(place, p.Variable) and place.name in own and \
                    isinstance(kernel.tags.get(place.name), LocalTag) is d.of_lanes:
                names.append(place.name)
        if len({*names}) == len(digits):
            return tuple(reversed(names))
    return ""


def _over_boxes(e: Expression) -> Expression:
    """*e* with whole inames in the place of their remainders: those of an axis that boxes share."""
    return e.numerator if isinstance(e, p.Remainder) and isinstance(e.numerator, p.Variable) \
        else map_children(e, _over_boxes)


def _split(kernel: LoopKernel, iname: str, digits: Digits, first: str = "") -> tuple[LoopKernel, tuple[str, ...]]:
    """*kernel* with *iname* split into *digits*, after a *first* iname of further values if it has a name."""
    names = list[str]()
    for d in digits:
        part = ("warp" if d.place > 1 else "lane") if d.of_lanes else "item" if d is digits[-1] else "part"
        names.append(kernel.fresh_name(f"{iname}_{part}", *names))
    every = (*([first] if first else []), *names)
    if len(every) == 1:
        return kernel, (iname,)
    lengths = dict(zip(every, (None, *(d.extent for d in digits))[-len(every):] if first else
                       (None, *(d.extent for d in digits[1:])), strict=True))
    return split_levels(kernel, iname, lengths), every


# Fragments

def _is_fragment(kernel: LoopKernel, element: p.Subscript) -> bool:
    return kernel.temporaries[array_of(element)].address_space is AddressSpace.WARP


def _fragment(kernel: LoopKernel, read: p.Subscript, layout: Fragment, along: tuple[set[str], set[str]]
              ) -> tuple[LoopKernel, Tags]:
    """*kernel* with the temporary of *read* distributed over the lanes by *layout*, and the loops of its copy.

    :arg along: the inames of the rows and of the columns in *read*.
    """
    name = array_of(read)
    axes = [[k for k, e in enumerate(read.index_tuple) if variables(e) & own] for own in along]
    row, column = (own[0] if own else None for own in axes)
    copy = _copy_of(kernel, name)
    shape = array_shapes(kernel)[name]
    shared = any(isinstance(kernel.tags.get(x), LocalTag) for k, e in enumerate(read.index_tuple)
                 if variables(e) & (along[0] | along[1]) for x in variables(copy.subscripts[k:k + 1]))
    if len(copy.subscripts) != len(read.index_tuple) or max(map(len, axes)) > 1:
        raise PreconditionError(f"The lanes of a warp share the fragment '{name}' already, for another factor.",
                                subject=name, hint="give each factor a fragment of its own")
    if row is None or column is None or row == column:
        raise PreconditionError(f"The fragment '{name}' must have an axis for rows and another one for columns.",
                                subject=name, hint="prefetch a box with the inames of both")
    if shared:
        return _computed_fragment(kernel, copy, (row, column), layout), {}
    tags: Tags = {}
    new = dict[Digit, str]()
    groups = list[str]()
    for k, digits in ((row, layout.rows), (column, layout.columns)):
        length, extent = prod(d.extent for d in digits), shape[k]
        iname = copy.subscripts[k]
        if not isinstance(extent, int) or extent % length:
            raise PreconditionError(f"Axis {k} of the fragment '{name}' must have a multiple of {length} elements; it "
                                    f"has {extent}.", subject=name, hint="prefetch whole boxes of the instruction")
        if not isinstance(iname, p.Variable) or extent_from_zero(kernel, iname.name) != extent:
            raise PreconditionError(f"'{copy.id}' must write axis {k} of the fragment '{name}' at an iname with the "
                                    f"values 0 to {extent - 1}, and not at {iname}.", subject=name,
                                    hint="add_prefetch makes such copies")
        require_untagged(kernel, iname.name, "distributed over the lanes of a warp")
        first = kernel.fresh_name(f"{iname.name}_box") if extent > length else ""
        kernel, parts = _split(kernel, iname.name, digits, first)
        own = parts[len(parts) - len(digits):]
        groups += parts[:len(parts) - len(digits)]
        new |= dict(zip(digits, own, strict=True))
    registers = [new[d] for d in layout.digits_of_registers]
    tags |= {**dict.fromkeys((*groups, *registers), UnrollTag()),
             **{new[d]: LocalTag(0) for d in layout.lanes}}
    kernel = _with_axes(kernel, name, (row, column), layout)
    order = [*groups, *(new[d] for d in layout.lanes), *registers]
    return with_loop_order(kernel, copy.id, order), tags


def _computed_fragment(kernel: LoopKernel, copy: Statement, axes: tuple[int, int], layout: Fragment) -> LoopKernel:
    """*kernel* with the temporary that *copy* writes in registers of the lanes that compute its elements.

    :raises PreconditionError: they are other lanes than those of *layout*.
    """
    for k, digits in zip(axes, (layout.rows, layout.columns), strict=True):
        rest = copy.subscripts[k]
        for d in reversed(digits):
            rest, found = group_and_place(kernel, rest, d.extent)
            of_lanes = [isinstance(kernel.tags.get(x), LocalTag) for x in variables(found)]
            if any(of_lanes) if not d.of_lanes else not (isinstance(found, p.Variable) and all(of_lanes)):
                raise PreconditionError(
                    f"'{copy.id}' computes the elements of the fragment '{copy.written}' in other lanes than those of "
                    "the factor.", subject=copy.written,
                    hint=f"set_temporary_address_space(knl, '{copy.written}', 'shared'), or copy it to a fragment")
    return _with_axes(kernel, copy.written, axes, layout)


def _copy_of(kernel: LoopKernel, name: str) -> Statement:
    """The one statement that writes *name*, for each element once; :raises PreconditionError: there is none."""
    writers = [a.statement for a in accesses_by_array(kernel).get(name, ()) if a.is_write]
    if len(writers) != 1:
        raise PreconditionError(f"{len(writers)} statements write the fragment '{name}'.", subject=name,
                                hint="let one statement copy all of its elements")
    return kernel.statement_by_id[writers[0]]


def _with_axes(kernel: LoopKernel, name: str, axes: tuple[int, int], layout: Fragment) -> LoopKernel:
    """*kernel* where *name* has axes for groups, registers and lanes in the place of its *axes* of rows and columns."""
    def parts(own: Sequence[Expression], split: Mapping[int, tuple[dict[Digit, Expression], Expression]]
              ) -> tuple[Expression, ...]:
        found = reduce(dict.__or__, (digits for digits, _ in split.values()))
        groups = [split[k][1] if k in split else e for k, e in enumerate(own)]
        kept = [g for k, g in enumerate(groups) if k not in axes or shape[k] > prod(
            d.extent for d in (layout.rows if k == axes[0] else layout.columns))]
        return (*kept, *(found[d] for d in (*layout.digits_of_registers, *layout.lanes)))
    shape: dict[int, int] = {k: e for k, e in enumerate(array_shapes(kernel)[name]) if isinstance(e, int)}
    digits_of = dict(zip(axes, (layout.rows, layout.columns), strict=True))

    def subscripts(_: str, own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        split = dict[int, tuple[dict[Digit, Expression], Expression]]()
        for k, digits in digits_of.items():
            rest, found = own[k], dict[Digit, Expression]()
            for d in reversed(digits):
                rest, found[d] = group_and_place(kernel, rest, d.extent)
            split[k] = found, rest
        return parts(own, split)

    def extents(_: str, own: tuple[Expression, ...]) -> tuple[Expression, ...]:
        return parts(own, {k: ({d: d.extent for d in digits}, shape[k] // prod(d.extent for d in digits))
                           for k, digits in digits_of.items()})
    return with_other_axes(kernel, [name], subscripts, extents)
