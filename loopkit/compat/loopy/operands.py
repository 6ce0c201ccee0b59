"""Operands of loopy's arithmetic, and what C makes of their signs."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pymbolic.typing import Expression


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand: its *text*, its form with casts, and the dtype in which C has it."""

    text: Expression
    cast: Expression
    dtype: np.dtype | None


def is_wide_unsigned(dtype: np.dtype | None) -> bool:
    """Is it an unsigned dtype in which C computes, without a conversion to int?"""
    return dtype is not None and dtype.kind == "u" and dtype.itemsize >= 4


def may_be_negative(operand: Operand) -> bool:
    """Is *operand* neither unsigned nor a number from 0 on? C makes it unsigned beside an unsigned one."""
    is_natural = isinstance(operand.text, int | np.integer) and operand.text >= 0
    return not is_natural and (operand.dtype is None or operand.dtype.kind != "u")
