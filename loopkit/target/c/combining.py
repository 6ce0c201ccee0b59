"""Functions that combine two tuples, for the reductions over tuples."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from loopkit.expr.nodes import Operation
from loopkit.expr.tuple_operations import TUPLE_REDUCTIONS
from loopkit.expr.tuples import COMBINING, combining_name, tuple_of_codes
from loopkit.kernel.kernel import LoopKernel
from loopkit.target.c.dialect import Dialect
from loopkit.target.c.expressions import CText
from loopkit.target.emit import wrapped


def combining_functions(knl: LoopKernel, dialect: Dialect) -> Callable[[str], Iterable[str]]:
    """Gives the functions for the reductions of *knl* that a text names."""
    operations = [*TUPLE_REDUCTIONS.values(), *(o for o in knl.operations.values() if o.fields)]

    def functions(code: str) -> Iterator[str]:
        for name in sorted(x for x in set(re.findall(r"\w+", code)) if COMBINING.fullmatch(x)):
            for operation in operations:
                dtype = tuple_of_codes(name, operation.fields)
                if dtype is not None and name == combining_name(operation.name, dtype):
                    yield _combining_function(name, operation, dtype, dialect)
    return functions


def _combining_function(name: str, operation: Operation, dtype: np.dtype, dialect: Dialect) -> str:
    printer = CText(dialect, {"a": dtype, "b": dtype}.get, lambda variable, _: variable, lambda _: False)
    struct, value = dialect.type_name(dtype), printer.text(operation.merged(dtype), dtype)
    return "\n".join([f"{dialect.functions.qualifier} {struct}", f"{name}({struct} a, {struct} b)",
                      "{", *wrapped([f"    return {value};"]), "}"])
