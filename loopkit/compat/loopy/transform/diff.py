"""loopy's step for derivatives."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.match import ordered_names
from loopkit.compat.loopy.translation_unit import TranslationUnit, single_kernel


def diff_kernel(kernel: Any, diff_outputs: Any, by: str, diff_iname_prefix: str = "diff_i",
                batch_axes_in_by: Collection[int] = frozenset(), copy_outputs: Any = frozenset()
                ) -> tuple[Any, dict[str, str]]:
    """:func:`loopkit.diff_kernel`: the kernel of the derivatives, and their names.

    >>> from loopkit.compat.loopy.transform.diff import diff_kernel
    >>> import loopkit.compat.loopy as lp
    >>> knl = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]*x[i]")
    >>> diff_kernel(knl, "y", "x")[1]
    {'y': 'y_dx'}
    """
    own = single_kernel(kernel)
    core, names = lk.diff_kernel(own.core, ordered_names(diff_outputs), by, diff_iname_prefix, batch_axes_in_by,
                                 ordered_names(copy_outputs))
    made = own.with_core(core)
    return kernel.with_kernel(made) if isinstance(kernel, TranslationUnit) else made, names
