"""loopy's steps for functions: kernels that other kernels call, and functions of numbers."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.codegen import generated
from loopkit.compat.loopy.kernel.definition import Definition
from loopkit.compat.loopy.kernel.function_interface import ScalarCallable
from loopkit.compat.loopy.kernel.kernel import LoopKernel
from loopkit.compat.loopy.translation_unit import TranslationUnit, for_each_kernel, linked, make_program
from loopkit.errors import NameConflictError, PreconditionError, require_known
from loopkit.language.names import fresh


def merge(translation_units: Iterable[Any]) -> TranslationUnit:
    """One program with all kernels of *translation_units*, which may call each other.

    >>> import loopkit.compat.loopy as lp
    >>> twice = lp.make_function("{[i]: 0<=i<4}", "b[i] = 2*a[i]", name="twice")
    >>> knl = lp.make_kernel("{[j]: 0<=j<n}", "y[j,:] = twice(x[j,:])")
    >>> print(lp.merge([knl, twice])["loopy_kernel"].core.statements_text)
    for j, i
      # y[j,:] = twice(x[j,:])
        y[j, i] = 2*x[j, i]  {id=twice_insn}
    end

    :raises NameConflictError: two kernels have one name.
    """
    units = [make_program(u) if isinstance(u, LoopKernel) else u for u in translation_units]
    if not units:
        raise PreconditionError("merge: there is no program.", subject="translation_units")
    kernels: dict[str, LoopKernel] = {}
    for name, kernel in (item for unit in units for item in unit.kernels.items()):
        if kernels.setdefault(name, kernel) is not kernel:
            raise NameConflictError(f"Two kernels have the name '{name}'.", subject=name,
                                    hint="name= of make_kernel gives each its own")
    return linked(replace(units[0], kernels=kernels, executors={},
                          entrypoints=frozenset().union(*(unit.entrypoints for unit in units)),
                          functions={name: f for unit in units for name, f in unit.functions.items()}))


def register_callable(translation_unit: TranslationUnit, function_identifier: str, callable_: Any,
                      redefining_not_ok: bool = True) -> TranslationUnit:
    """The program with a function of numbers, a :class:`ScalarCallable`, which its statements call by the name given.

    :raises NameConflictError: the program has a function of this name.
    :raises PreconditionError: *callable_* is not a function of numbers.
    """
    if redefining_not_ok and function_identifier in translation_unit.functions:
        raise NameConflictError(f"The program has a function '{function_identifier}' already.",
                                subject=function_identifier, hint="redefining_not_ok=False")
    if not isinstance(callable_, ScalarCallable):
        raise PreconditionError(f"register_callable: {callable_!r} is not a ScalarCallable.",
                                subject=function_identifier, hint="lp.merge adds kernels that statements call")
    return linked(replace(translation_unit, functions={**translation_unit.functions, function_identifier: callable_}))


def inline_callable_kernel(translation_unit: Any, function_name: str) -> Any:
    """:func:`loopkit.inline_callable_kernel` in each kernel that calls *function_name*.

    An iname ``i`` of the function ``f`` becomes ``f_i``, with the first four letters of the function's name.
    If no call may enter the function, the program has no kernel of this name any more.
    """
    new = _inlined(translation_unit, function_name)
    if not isinstance(new, TranslationUnit) or function_name not in new.kernels or function_name in new.entrypoints:
        return new
    others = {name: kernel for name, kernel in new.kernels.items() if name != function_name}
    if any(kernel.made is None or function_name in {region.function for region in kernel.core.calls.values()}
           for kernel in new.kernels.values()):
        return new
    # a kernel that is made again needs it
    return replace(new, kernels=others, functions={**new.functions, function_name: new[function_name].core},
                   executors={})


@for_each_kernel
def _inlined(kernel: LoopKernel, function_name: str) -> LoopKernel:
    if function_name not in {region.function for region in kernel.core.calls.values()}:
        return kernel
    core = lk.inline_callable_kernel(kernel.core, function_name)
    own = {x: name for region in kernel.core.calls.values() if region.function == function_name
           for x, name in region.names.items() if x in core.inames}
    for x, name in own.items():
        core = lk.rename_iname(core, x, core.fresh_name(f"{function_name[:4]}_{name}"))
    return kernel.with_core(core)


def pack_and_unpack_args_for_call(program: TranslationUnit, call_name: str, input_args_to_pack: Any = None,
                                  output_args_to_unpack: Any = None) -> TranslationUnit:
    """Let calls of *call_name* pass slices of another rank than its arguments: the same elements in row-major order.

    It makes no copies: a function of loopkit takes slices of any strides.

    >>> import loopkit.compat.loopy as lp
    >>> twice = lp.make_function("{[i]: 0<=i<6}", "b[i] = 2*a[i]", name="twice")
    >>> knl = lp.make_kernel("{[i,j]: 0<=i<3 and 0<=j<2}", "[i,j]: y[i,j] = twice([i,j]: x[i,j])")
    >>> knl = lp.pack_and_unpack_args_for_call(lp.merge([knl, twice]), "twice")
    >>> print(knl["loopy_kernel"].core.statements_text)
    # [y_packed_0]: y[y_packed_0 // 2, y_packed_0 % 2] = twice([x_packed_0]: x[x_packed_0 // 2, x_packed_0 % 2])
      for i_0
        y[i_0 // 2, i_0 % 2] = 2*x[i_0 // 2, i_0 % 2]  {id=twice_insn}
      end
    """
    return _redefined(program, lambda d: replace(d, packed=d.packed | {call_name}) if call_name in d.calls else d)


def register_preamble_generators(program: TranslationUnit, preamble_generators: Iterable[Callable[[Any], Any]]
                                 ) -> TranslationUnit:
    """The program with definitions for its C code and its symbols: functions give pairs of a key and a text.

    :raises PreconditionError: a kernel has a step that cannot be applied again.
    """
    found = tuple(generated(preamble_generators))
    return _redefined(program, lambda d: replace(d, text=d.text.extended(found, ())))


def register_symbol_manglers(program: TranslationUnit, manglers: Iterable[Callable[[Any, str], Any]]
                             ) -> TranslationUnit:
    """The program with symbols of C: names other than arguments, for which a mangler gives a dtype and a text.

    :raises PreconditionError: a kernel has a step that cannot be applied again.
    """
    found = tuple(manglers)
    return _redefined(program, lambda d: replace(d, text=d.text.extended((), found)))


def _redefined(program: TranslationUnit, change: Callable[[Definition], Definition]) -> TranslationUnit:
    """*program* with other definitions; :raises PreconditionError: a kernel has none any more."""
    kernels: dict[str, LoopKernel] = {}
    for name, kernel in program.kernels.items():
        if kernel.definition is None:
            raise PreconditionError(f"'{name}' has a step that cannot be applied again.", subject=name,
                                    hint="apply this step before those")
        new = change(kernel.definition)
        kernels[name] = kernel if new is kernel.definition else replace(kernel, made=None, definition=new)
    return linked(replace(program, kernels=kernels, executors={}))


def rename_callable(t_unit: TranslationUnit, old_name: str, new_name: str | None = None, existing_ok: bool = False
                    ) -> TranslationUnit:
    """The program with another name of a kernel, or of a registered function, and of its calls.

    :raises UnknownNameError: the program has no function *old_name*.
    :raises NameConflictError: *new_name* is taken.
    :raises PreconditionError: a kernel has a step that cannot be applied again.
    """
    taken = {*t_unit.kernels, *t_unit.functions}
    require_known("function", [old_name], taken)
    new = new_name or fresh(old_name, {*taken})
    if new in taken - {old_name}:
        raise NameConflictError(f"The program has a function '{new}' already.", subject=new)
    functions = {new if x == old_name else x: replace(f, name=new) if x == old_name and not isinstance(
        f, lk.LoopKernel) else f for x, f in t_unit.functions.items()}
    kernels = {new if name == old_name else name: kernel for name, kernel in t_unit.kernels.items()}
    return _redefined(replace(t_unit, kernels=kernels, functions=functions, entrypoints=frozenset(
        new if x == old_name else x for x in t_unit.entrypoints)),
        lambda d: d.renamed(old_name, new) if d.name == old_name or old_name in d.calls else d)
