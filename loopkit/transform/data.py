"""Transformations of arguments, temporaries, dtypes, parameters and options; none changes the order."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pymbolic.primitives as p
from pymbolic.typing import Expression

from loopkit.analysis.accesses import declared
from loopkit.analysis.constructors import annotated, rewritten, specialized, with_dependences
from loopkit.analysis.match import Within
from loopkit.analysis.shapes import with_sizes_nonnegative, without_inferred_shapes
from loopkit.errors import PreconditionError, require_known
from loopkit.expr.dtypes import FLOAT32, Weak, type_of
from loopkit.expr.kinds import DTYPES, dtype_of, is_narrow, is_tuple, kind_of, promote
from loopkit.expr.mappers import map_children, substitute, variables
from loopkit.expr.nodes import TypeCast, product_of
from loopkit.expr.tuples import dtype_text
from loopkit.kernel.data import AddressSpace, Argument, CachePolicy, GlobalArg, TemporaryVariable, ValueArg, named_space
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import ReductionNode
from loopkit.language.domains import read_assumptions
from loopkit.language.names import name_list
from loopkit.poly.domains import AnySet
from loopkit.poly.limits import coalesced
from loopkit.poly.sets import rename_param
from loopkit.transform.reindex import folded, substituted, substituted_rules, with_domains
from loopkit.transform.step import known_list, matching_statements, require_dtype, require_fresh, transform


@transform
def add_dtypes(kernel: LoopKernel, dtype_dict: Mapping[str, npt.DTypeLike]) -> LoopKernel:
    """Declare the dtypes of arguments and temporaries.

    :arg dtype_dict: numpy dtypes (or any value that :class:`numpy.dtype` accepts) by name; several names may share one
        key, as ``"a,b"``.
    :raises UnknownNameError: a name is neither an argument nor a temporary.
    :raises PreconditionError: a dtype contradicts the declared one, or kernels do not support it; *dtype_dict* is not a
        mapping.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> lk.add_dtypes(knl, {"x": np.float32}).argument_by_name["x"].dtype
    dtype('float32')
    """
    wanted = {name: as_dtype(value, f"'{name}'") for key, value in dtype_dict.items() for name in name_list(key)}
    require_known("argument or temporary", wanted, [*kernel.argument_by_name, *kernel.temporaries])
    for name, dtype in wanted.items():
        if is_tuple(dtype) and isinstance(kernel.argument_by_name.get(name), ValueArg):
            raise PreconditionError(f"The value argument '{name}' cannot be a tuple {dtype_text(dtype)}.", subject=name,
                                    hint="subscript it in the text: an array's elements can be tuples")
        known = kernel.argument_by_name.get(name) or kernel.temporaries[name]
        if known.dtype is not None and np.dtype(known.dtype) != dtype:
            raise PreconditionError(f"'{name}' has the dtype {known.dtype} already, not {dtype}.", subject=name)
    return with_dtypes(kernel, wanted)


def with_dtypes(kernel: LoopKernel, wanted: Mapping[str, np.dtype]) -> LoopKernel:
    """*kernel* with the dtypes *wanted*."""
    values = [a.name for a in kernel.arguments if isinstance(a, ValueArg) and a.name in wanted]
    arguments = tuple(replace(a, dtype=wanted[a.name]) if a.name in wanted else a for a in kernel.arguments)
    temporaries = {t.name: replace(t, dtype=wanted[t.name]) if t.name in wanted else t
                   for t in kernel.temporaries.values()}
    # an integer dtype of an argument can make conditions on it affine
    result = (specialized if values else annotated)(kernel, arguments=arguments, temporaries=temporaries)
    return with_sizes_nonnegative(result) if any(wanted[x].kind == "u" for x in values) else result


def as_dtype(value: npt.DTypeLike, owner: str) -> np.dtype:
    """The numpy dtype of *value*; :raises PreconditionError: *owner* can have no such dtype."""
    dtype = dtype_of(value)
    if dtype is None:
        raise PreconditionError(f"{owner} cannot have the dtype {value!r}.", subject=owner.strip("'"), hint=DTYPES)
    return dtype


@transform
def set_accumulator_dtype(kernel: LoopKernel, dtype: npt.DTypeLike, *, within: Within = None
                  ) -> LoopKernel:
    """Compute reductions in *dtype*: each operand loaded from a narrower dtype of the same kind is converted first.

    Products, sums and the accumulator then have *dtype*, unless an operand of another kind or a wider dtype needs a
    wider result (int32 with float32 gives float64). An output with a declared dtype keeps it; its values are rounded
    once, when they are stored. The results differ from those of *kernel* by rounding, and those of integers by the
    multiples of 2**8 or 2**16 that narrower sums lose.

    Sums of integers are exact while they fit: in int32 those of up to 131,071 products of int8, or 33,025 of uint8.
    Longer ones may wrap around, as in numpy and in matrix units.

    :arg dtype: a real dtype, for example ``np.float32`` for operands of float16, bfloat16 or 8 bits; or an integer
        dtype, for example ``np.int32`` for operands of int8 or uint8.
    :arg within: the statements with the reductions; default: all with such operands.
    :raises UnknownNameError: *within* names no statement.
    :raises PreconditionError: *dtype* is neither real nor an integer dtype, or cannot hold an operand; an operand's
        dtype is unknown; no operand needs a conversion.

    >>> knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k]*x[k])")
    >>> knl = lk.add_dtypes(knl, {"a,x,y": np.float16})
    >>> print(knl.statements_text)
    for i
      y[i] = sum(k, a[i, k]*x[k])  {id=insn}
    end
    >>> print(lk.set_accumulator_dtype(knl, np.float32).statements_text)
    for i
      y[i] = sum(k, cast(float32, a[i, k])*cast(float32, x[k]))  {id=insn}
    end
    """
    wanted = as_dtype(dtype, "An accumulator")
    if kind_of(wanted) not in "fiu":
        raise PreconditionError(f"An accumulator must have a real or an integer dtype, not {wanted}.",
                                subject=str(wanted), hint="accumulate in float32, float64 or int32")
    chosen = matching_statements(kernel, within)
    operands: dict[str, Expression] = {}
    accumulators = set[str]()
    for node, update in ((n, s) for n in kernel.reductions.values() if n.update in chosen for s in n.updates):
        old = kernel.statement_by_id[update].expression
        new = _with_wider_loads(kernel, node, old, wanted)
        if new is not old:
            operands[update] = new
            accumulators.add(node.accumulator)
    if not operands:
        what = "real numbers" if kind_of(wanted) == "f" else "integers"
        raise PreconditionError(f"No selected reduction loads {what} narrower than {wanted}.",
                                subject=str(wanted), hint="select reductions of narrower operands")
    return rewritten(
        kernel,
        statements=tuple(replace(s, expression=operands[s.id]) if s.id in operands else s for s in kernel.statements),
        temporaries={name: replace(t, dtype=wanted) if name in accumulators and t.dtype is not None else t
                     for name, t in kernel.temporaries.items()})


def _with_wider_loads(kernel: LoopKernel, node: ReductionNode, operand: Expression, wanted: np.dtype) -> Expression:
    """*operand* with its loads of narrower numbers of one kind converted; itself where it has none."""
    def convert(e: Expression) -> Expression:
        match e:
            case p.Call(function=p.Variable(name=name)) if name in kernel.substitutions:
                raise _of_rule(node, name)
            case TypeCast():
                return e                               # its dtype was chosen already
            case p.Variable(name=name) | p.Subscript(aggregate=p.Variable(name=name)):
                return TypeCast(wanted.name, e) if name in kernel.data and _is_narrower(
                    name, kernel.data[name].dtype, wanted) else e
            case _:
                return map_children(e, convert)
    return convert(operand)


def _of_rule(node: ReductionNode, name: str) -> PreconditionError:
    """The error for an operand of *node* that calls the rule *name*."""
    return PreconditionError(f"The operand of '{node.name}' calls the rule '{name}', and other expressions "
                             "call it too.", subject=name, hint=f"expand_subst(knl, '{name}') first")


def _is_narrower(name: str, known: np.dtype | None, wanted: np.dtype) -> bool:
    """Is the dtype *known* of *name* another of the kind of *wanted*? :raises PreconditionError: it does not fit."""
    dtype = require_dtype(name, known)
    kinds = "f" if kind_of(wanted) == "f" else "iu"
    if kind_of(dtype) not in kinds or dtype == wanted:
        return False
    if promote(dtype, wanted) != wanted:
        raise PreconditionError(f"{wanted} cannot hold all values of '{name}', which has the dtype {dtype}.",
                                subject=name, hint=f"accumulate in {promote(dtype, wanted)}")
    return True


@transform
def set_operand_precision(kernel: LoopKernel, precision: str, *, within: Within = None) -> LoopKernel:
    """Multiply float32 numbers in sums with the *precision* of matrix units: ``"tf32"``.

    Each factor of a float32 product in a selected sum becomes ``tf32(factor)``: its fraction has 10 bits, as the low 13
    are cleared. Products of two such factors are exact in float32, in which they are added up. Results differ from
    those of *kernel* by about ``2**-9`` of the products. Numbers, and factors of narrower dtypes, stay as they are.

    NVIDIA's matrix units read 10 bits of the fraction of a float32 register, and ignore the others (PyTorch's notes on
    numerical accuracy). So this step describes what they compute from unchanged data. Other systems round the data
    first, at the cost of an instruction for each element; ``tf32`` of rounded data is the data.

    Triton's ``input_precision`` and JAX's ``precision`` are like this step.

    :arg within: the statements with the sums; default: all.
    :raises UnknownNameError: *within* names no statement.
    :raises PreconditionError: there is no such precision; the dtype of a factor is unknown; no selected sum has a
        product of float32 factors without it.

    >>> knl = lk.make_kernel("{[i,j,k]: 0<=i,j,k<n}", "c[i,j] = sum(k, a[i,k]*b[k,j])")
    >>> knl = lk.add_dtypes(knl, {"a,b": np.float32})
    >>> print(knl.statements_text)
    for i, j
      c[i, j] = sum(k, a[i, k]*b[k, j])  {id=insn}
    end
    >>> print(lk.set_operand_precision(knl, "tf32").statements_text)
    for i, j
      c[i, j] = sum(k, tf32(a[i, k])*tf32(b[k, j]))  {id=insn}
    end
    """
    if precision != "tf32":
        raise PreconditionError(f"There is no precision {precision!r} of operands.", subject=str(precision),
                                hint="'tf32' is the only one; add_dtypes and set_accumulator_dtype choose dtypes")
    chosen = matching_statements(kernel, within)
    sums = {s: node for node in kernel.reductions.values() if node.update in chosen and node.operation == "sum"
            for s in node.updates}
    new = {s: _in_tf32(kernel, node, kernel.statement_by_id[s].expression) for s, node in sums.items()}
    if all(new[s] is kernel.statement_by_id[s].expression for s in sums):
        raise PreconditionError("No selected sum has products of float32 factors.", subject="tf32",
                                hint="select sums of products of float32 elements: sum(k, a[i,k]*b[k,j])")
    return rewritten(kernel, statements=tuple(
        replace(s, expression=new[s.id]) if s.id in new else s for s in kernel.statements))


def _in_tf32(kernel: LoopKernel, node: ReductionNode, operand: Expression) -> Expression:
    """*operand* with the factors of its products of float32 in tf32; itself where it has none."""
    lookup = partial(declared, kernel)

    def factor(e: Expression) -> Expression:
        own = type_of(e.child, lookup) if isinstance(e, TypeCast) else None
        is_exact = isinstance(own, Weak) or (own is not None and is_narrow(own))
        is_done = isinstance(e, p.Call) and e.function == p.Variable("tf32")
        wanted = type_of(e, lookup) == FLOAT32 and not (is_exact or is_done or isinstance(e, p.Product))
        return p.Variable("tf32")(e) if wanted else convert(e)

    def convert(e: Expression) -> Expression:
        match e:
            case p.Call(function=p.Variable(name=name)) if name in kernel.substitutions:
                raise _of_rule(node, name)
            case p.Subscript():
                return e
            case p.Product(children=factors):
                for name in sorted(variables(e) & kernel.data.keys()):
                    require_dtype(name, kernel.data[name].dtype)
                found = tuple(map(factor if type_of(e, lookup) == FLOAT32 else convert, factors))
                return product_of(*found) if any(a is not b for a, b in zip(found, factors, strict=True)) else e
            case _:
                return map_children(e, convert)
    return convert(operand)


@transform
def rename_argument(kernel: LoopKernel, old_name: str, new_name: str) -> LoopKernel:
    """Rename the argument *old_name* to *new_name*.

    :raises UnknownNameError: there is no such argument.
    :raises NameConflictError: the new name is taken.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> [a.name for a in lk.rename_argument(knl, "x", "source").arguments]
    ['n', 'source', 'y']
    """
    require_known("argument", [old_name], kernel.argument_by_name)
    require_fresh(kernel, new_name)
    values = {old_name: p.Variable(new_name)}

    def renamed(arg: Argument) -> Argument:
        new = replace(arg, name=new_name) if arg.name == old_name else arg
        if isinstance(new, GlobalArg) and new.shape_like == old_name:
            new = replace(new, shape_like=new_name)
        return reshaped(new, values)
    return with_dependences(
        kernel, lambda found, _: (replace(d, relation=rename_param(d.relation, old_name, new_name),
                                          array=new_name if d.array == old_name else d.array) for d in found),
        arguments=tuple(map(renamed, kernel.arguments)), temporaries=reshaped_temporaries(kernel, values),
        statements=with_domains((substituted(s, values) for s in kernel.statements),
                                lambda d: d.named(rename_param(d.set, old_name, new_name))),
        assumptions=rename_param(kernel.assumptions, old_name, new_name),
        declared_domains=tuple(d.named(rename_param(d.set, old_name, new_name)) for d in kernel.declared_domains),
        substitutions=substituted_rules(kernel.substitutions, values))


@transform
def set_temporary_address_space(kernel: LoopKernel, temporary_names: str | Iterable[str],
                                address_space: str | AddressSpace) -> LoopKernel:
    """Put temporaries into ``"private"``, ``"warp"``, ``"shared"`` (loopy's ``"local"``) or ``"global"`` memory.

    Private memory belongs to a thread, shared memory to a block, global memory to all blocks. ``"warp"`` is for the
    fragments of :func:`tensorize`: registers whose elements belong to the lanes of a warp. Lowering checks the choice,
    and refuses an address space that cannot hold all values that are alive at once.

    :raises UnknownNameError: a name is not a temporary.
    :raises PreconditionError: there is no such address space; a temporary is constant.

    >>> knl = lk.make_kernel("{[i]: 0<=i<64}", "<> t = 2*x[i]\\ny[i] = t")
    >>> lk.set_temporary_address_space(knl, "t", "shared").temporaries["t"].address_space
    <AddressSpace.SHARED: 'shared'>
    """
    names = known_list("temporary", temporary_names, kernel.temporaries)
    for x in names:
        if kernel.temporaries[x].read_only:
            raise PreconditionError(f"'{x}' is constant: the target chooses its memory.", subject=x,
                                    hint="leave it out, or pass it as an argument")
    return annotated(kernel, temporaries={**kernel.temporaries, **{
        x: replace(kernel.temporaries[x], address_space=named_space(address_space, x)) for x in names}})


@transform
def set_cache_policy(kernel: LoopKernel, var_names: str | Iterable[str], policy: str | None) -> LoopKernel:
    """Set the cache policy of the arrays *var_names*. The results are the same.

    ``"evict_last"``: caches evict elements loaded from the arrays last. This policy serves arrays that are read again.
    It also serves memory-bound kernels that read nothing twice: such a kernel gained 3 % on an H200, presumably because
    the cache evicts results instead, and writes them soon. Single loads, each followed by a store, become slower:
    measure. Architectures before ``sm_80`` ignore this policy.

    ``"streaming"``: caches evict elements stored to the arrays first (``__stcs``). This policy serves results that the
    kernel does not read again. Updates (``+=``) are stored without a policy.

    CUDA has no such instructions for complex numbers, truth values, single halves and single floats of 8 bits. The host
    has none at all.

    :arg policy: the policy; ``None`` removes it.
    :raises UnknownNameError: a name is not an array argument.
    :raises PreconditionError: there is no such policy; the kernel writes to an array for ``"evict_last"``, or does not
        write to one for ``"streaming"``.

    >>> knl = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), {"x": np.float32})
    >>> knl = lk.set_cache_policy(lk.set_cache_policy(knl, "x", "evict_last"), "y", "streaming")
    >>> for argument in knl.array_args.values():
    ...     print(argument)
    GlobalArg(name='x', dtype=float32, cache_policy=evict_last)
    GlobalArg(name='y', shape_like='x', cache_policy=streaming)
    >>> "__stcs(&y[i], 2.0f*load_evict_last(&x[i]));" in lk.generate_code(knl, target="cuda").source
    True
    """
    names = known_list("array argument", var_names, kernel.array_args)
    try:
        chosen = None if policy is None else CachePolicy(policy)
    except ValueError:
        known = ", ".join(map(str, CachePolicy))
        raise PreconditionError(f"'{policy}' is not a cache policy.", subject=str(policy),
                                hint=f"the policies are {known}; None removes the policy") from None
    for x in names:
        if chosen is CachePolicy.EVICT_LAST and x in kernel.written_names:
            raise PreconditionError(f"The kernel writes to '{x}': a load with this policy could miss the write.",
                                    subject=x, hint="name arrays that the kernel only reads")
        if chosen is CachePolicy.STREAMING and x not in kernel.written_names:
            raise PreconditionError(f"Nothing writes to '{x}'.", subject=x,
                                    hint="name arrays that the kernel writes to")
    return annotated(kernel, arguments=tuple(
        replace(a, cache_policy=chosen) if isinstance(a, GlobalArg) and a.name in names else a
        for a in kernel.arguments))


@transform
def assume(kernel: LoopKernel, assumptions: str | AnySet) -> LoopKernel:
    """Add *assumptions* about the size parameters: a condition in isl's notation.

    For example ``"n >= 16 and n mod 16 = 0"`` or ``"exists e: n = 16*e"``; an isl parameter set is accepted too.

    Each run of the kernel checks them. Lowering uses them to drop guards.

    :raises ParseError: the text is not a condition.
    :raises UnknownNameError: a name in it is not a value argument.
    :raises PreconditionError: it contradicts itself or earlier assumptions.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions="n>=1")
    >>> print(lk.assume(knl, "n mod 4 = 0"))  # doctest: +ELLIPSIS
    KERNEL kernel
    ...
    ASSUMPTIONS
      (n) mod 4 = 0 and n > 0
    ...
    """
    new = read_assumptions(assumptions, kernel.value_params)
    both = kernel.assumptions.intersect(new)
    if both.is_empty():
        raise PreconditionError(f"'{assumptions}' contradicts the assumptions of the kernel.",
                                subject=str(assumptions))
    return specialized(
        kernel, lambda found, _: (replace(d, relation=d.relation.intersect_params(both)) for d in found),
        assumptions=coalesced(both), arguments=without_inferred_shapes(kernel.arguments, but_linear=True))


@transform
def set_options(kernel: LoopKernel, /, **options: object) -> LoopKernel:
    """Change options of code generation; see :class:`loopkit.Options`.

    :raises UnknownNameError: there is no such option.
    :raises PreconditionError: a value of the wrong type.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]")
    >>> lk.set_options(knl, full_tiles=False).options.full_tiles
    False
    """
    require_known("option", options, [f.name for f in fields(kernel.options)], where="a kernel")
    return annotated(kernel, options=replace(kernel.options, **options))   # type: ignore[arg-type]


def reshaped(arg: Argument, values: Mapping[str, Expression]) -> Argument:
    """*arg* with *values* put into its shape and its strides."""
    if not isinstance(arg, GlobalArg):
        return arg
    return replace(arg, shape=_shape_with(arg.shape, values), inferred=_shape_with(arg.inferred, values),
                   strides=_shape_with(arg.strides, values))


def reshaped_temporaries(kernel: LoopKernel, values: Mapping[str, Expression]) -> dict[str, TemporaryVariable]:
    """The temporaries with *values* put into their shapes."""
    return {t.name: replace(t, shape=_shape_with(t.shape, values)) for t in kernel.temporaries.values()}


E = TypeVar("E", Expression, Expression | None)


def _shape_with(shape: tuple[E, ...] | None, values: Mapping[str, Expression]) -> tuple[E, ...] | None:
    return None if shape is None else tuple(e if e is None else folded(substitute(e, values)) for e in shape)

