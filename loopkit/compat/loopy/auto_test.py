"""auto_test_vs_ref: a program and its reference on the same data."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.analysis.shapes import array_shapes
from loopkit.compat.loopy.bounds import as_compiled, without_divisibility
from loopkit.compat.loopy.kernel.data import ValueArg
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import runnable
from loopkit.errors import EquivalenceError, PreconditionError
from loopkit.expr.evaluate import evaluate
from loopkit.expr.kinds import is_tuple
from loopkit.language.names import name_list
from loopkit.poly.limits import bounded


def auto_test_vs_ref(ref_prog: Any, ctx: Any, test_prog: Any = None, op_count: Any = (), op_label: Any = (),
                     parameters: Mapping[str, Any] | None = None, print_ref_code: bool = False,
                     print_code: bool = True, warmup_rounds: int = 2, dump_binary: bool = False,
                     fills_entire_output: bool | None = None, do_check: bool = True,
                     check_result: Callable[..., Any] | None = None, max_test_kernel_count: int = 1,
                     quiet: bool = False, blacklist_ref_vendors: Any = (), ref_entrypoint: str | None = None,
                     test_entrypoint: str | None = None) -> Mapping[str, Any]:
    """Compare *test_prog* with *ref_prog* by :func:`loopkit.check_equivalent`.

    :arg parameters: the sizes and numbers of the calls.
    :arg check_result: compares an output with that of the reference: ``(are they equal, a remark)``.
    :raises EquivalenceError: the outputs differ.
    """
    reference = runnable(ref_prog, ref_entrypoint)
    tested = reference if test_prog is None else runnable(test_prog, test_entrypoint)
    if do_check:
        values = _values(reference, parameters or {})
        right, knl = (as_compiled(_for(k.core, values)) for k in (reference, tested))
        with bounded(f"inferring shapes of kernel '{knl.name}'"):
            split = {name: shape for name, shape in array_shapes(right).items()
                     if name in knl.array_args and len(array_shapes(knl)[name]) > len(shape)}
        function = _with_split_axes(right, knl, split) if split or check_result is not None else None
        if check_result is not None and function is not None:
            function = _checked_by(check_result, function, knl)
        lk.check_equivalent(function or right, knl, values, target="c")
    return {}


def _for(core: lk.LoopKernel, values: Mapping[str, Any]) -> lk.LoopKernel:
    """*core*, without the divisibility of sizes that it assumes if *values* do not have it."""
    sizes = {name: int(values[name]) for name in core.value_params if name in values}
    try:
        lk.fix_parameters(core, **sizes)
    except PreconditionError:                              # they exclude the values
        return without_divisibility(core) or core
    return core


def _checked_by(check_result: Callable[..., Any], reference: Callable[..., Any], knl: lk.LoopKernel
                ) -> Callable[..., Any]:
    """A function with the outputs of *knl*, if *check_result* accepts them in the place of those of *reference*."""
    run = lk.compile(knl, "c")

    def function(**given: Any) -> dict[str, Any]:
        right = reference(**given)
        found = dict(run(**{name: np.array(x) if name in knl.written_names else x for name, x in given.items()
                            if name in knl.argument_by_name}).asdict())
        for name, own in found.items():
            accepted, remark = check_result(own, right[name])
            if not accepted:
                raise EquivalenceError(f"check_result refuses the output '{name}'{f': {remark}' if remark else ''}.",
                                       output=name, index=(), got=own, expected=right[name], error=np.inf, bound=0)
        return found
    return function


def _with_split_axes(reference: lk.LoopKernel, knl: lk.LoopKernel, split: Mapping[str, Sequence[Any]]
                     ) -> Callable[..., Any]:
    """*reference* as a function of the arrays of *knl*, which splits axes of the arrays *split*, given by shape."""
    run = lk.compile(reference, "c")

    def function(**given: Any) -> dict[str, Any]:
        own, shapes = dict(given), {name: np.shape(x) for name, x in given.items()}
        for name in split.keys() & given.keys():
            extents = [evaluate(e, given) for e in split[name]]
            merged = given[name].reshape(_merged(name, shapes[name], extents))
            own[name] = np.ascontiguousarray(merged[tuple(map(slice, extents))])
        found = dict(run(**{name: x for name, x in own.items() if name in reference.argument_by_name}).asdict())
        with bounded(f"inferring shapes of kernel '{knl.name}'"):
            known = array_shapes(knl)
        for name in split.keys() & found.keys():
            shape = [evaluate(e, given) for e in known[name] if e is not None]
            # the padding keeps its values
            whole = np.array(given[name]) if name in given else np.zeros(shape, found[name].dtype)
            whole = np.ascontiguousarray(whole).reshape(_merged(name, shape, found[name].shape))
            whole[tuple(map(slice, found[name].shape))] = found[name]
            found[name] = whole.reshape(shape)
        return found
    return function


def _merged(name: str, shape: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """The *shape* of the array *name* with the parts of axes together, each at least as long as one of *extents*.

    :raises PreconditionError: the parts are not those of split axes.
    """
    found, rest = list[int](), list(shape)
    for left, extent in zip(reversed(range(len(extents))), extents, strict=True):
        length = rest.pop(0)
        while length < extent and len(rest) > left:
            length *= rest.pop(0)
        found.append(length)
    if rest or any(own < extent for own, extent in zip(found, extents, strict=True)):
        raise PreconditionError(f"auto_test_vs_ref: the axes of '{name}' are not those of the reference, or parts of "
                                "them.", subject=name, hint="lk.check_equivalent compares with a function of arrays")
    return tuple(found)


def _values(kernel: LoopKernel, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the numbers that *kernel* takes: those in *parameters*, else ``approximately``."""
    known = {name: value for names, value in parameters.items() for name in name_list(names)}
    usual = {name: arg.approximately for name, arg in kernel.declared.items()
             if isinstance(arg, ValueArg) and name in kernel.core.argument_by_name}
    found = {name: known.get(name, usual.get(name)) for name in {**usual, **known}}
    dtypes = {a.name: a.dtype for a in kernel.core.arguments}
    return {name: value if (dtype := dtypes.get(name)) is None else np.asarray(value, dtype) if is_tuple(dtype)
            else np.dtype(dtype).type(value)
            for name, value in found.items() if name in dtypes}
