"""auto_test_vs_ref: a program and its reference on the same data."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import loopkit as lk
from loopkit.compat.loopy.bounds import ready
from loopkit.compat.loopy.kernel.data import ValueArg
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import runnable
from loopkit.errors import PreconditionError
from loopkit.language.names import name_list


def auto_test_vs_ref(ref_prog: Any, ctx: Any, test_prog: Any = None, op_count: Any = (), op_label: Any = (),
                     parameters: Mapping[str, Any] | None = None, print_ref_code: bool = False,
                     print_code: bool = True, warmup_rounds: int = 2, dump_binary: bool = False,
                     fills_entire_output: bool | None = None, do_check: bool = True,
                     check_result: Callable[..., Any] | None = None, max_test_kernel_count: int = 1,
                     quiet: bool = False, blacklist_ref_vendors: Any = (), ref_entrypoint: str | None = None,
                     test_entrypoint: str | None = None) -> Mapping[str, Any]:
    """Compare *test_prog* with *ref_prog* by :func:`loopkit.check_equivalent`.

    :arg parameters: the sizes and numbers of the calls.
    :raises EquivalenceError: the outputs differ.
    """
    if check_result is not None:
        raise PreconditionError("auto_test_vs_ref: loopkit has nothing for check_result=.", subject="check_result",
                                hint="lk.check_equivalent(ref, knl, ..., rtol=) sets the error bound")
    reference = runnable(ref_prog, ref_entrypoint)
    tested = reference if test_prog is None else runnable(test_prog, test_entrypoint)
    if do_check:
        lk.check_equivalent(ready(reference.core), ready(tested.core),
                            _values(reference, parameters or {}), target="c")
    return {}


def _values(kernel: LoopKernel, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the numbers that *kernel* takes: those in *parameters*, else ``approximately``."""
    known = {name: value for names, value in parameters.items() for name in name_list(names)}
    usual = {name: arg.approximately for name, arg in kernel.declared.items()
             if isinstance(arg, ValueArg) and name in kernel.core.argument_by_name}
    found = {name: known.get(name, usual.get(name)) for name in {**usual, **known}}
    dtypes = {a.name: a.dtype for a in kernel.core.arguments}
    return {name: np.dtype(dtypes[name]).type(value) if dtypes.get(name) is not None else value
            for name, value in found.items() if name in dtypes}
