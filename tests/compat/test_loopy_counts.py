"""loopy's counts of a program, with its names and arguments."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.statistics import count


def test_counts_of_a_program() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", "y[2*i] = 2*x[i] {id=a}\nz[i] = x[i] + 1 {id=b}", name="two",
                         assumptions="n>=1")
    knl = lp.add_dtypes(knl, {"x": np.float32})
    operations = lp.get_op_map(knl, subgroup_size="guess", entrypoint="two", within="id:a")
    key = lp.Op(lp.to_loopy_type(np.float32), "mul", lp.CountGranularity.SUBGROUP, "two")
    assert operations[key].eval_with_dict({"n": 7}) == 7
    loads = lp.get_mem_access_map(knl).filter_by(direction=["load"]).group_by("variable")
    assert loads[lp.MemAccess(variable="x", variable_tags=None)].eval_with_dict({"n": 7}) == 14
    assert lp.get_synchronization_map(knl).filter_by(kind="kernel_launch").eval_and_sum() == 1
    assert count(knl, lp.gather_access_footprints(knl)["y", "write"]).eval_with_dict({"n": 7}) == 7
    assert lp.gather_access_footprint_bytes(knl)["y", "write"].eval_with_dict({"n": 7}) == 28
    with pytest.raises(ValueError, match="bushel"):
        lp.MemAccess(count_granularity="bushel")


def test_accesses_by_the_tags_of_variables() -> None:
    knl = lp.make_kernel("{[i]: 0<=i<n}", """
        y$out[i] = x$left[i] + x$left[i+1] + z[i] {id=a}
        w[i] = x[i] {id=b}
        v[i] = x$left[i] + x[i+1] {id=c}""", assumptions="n>=1")
    knl = lp.split_iname(lp.add_dtypes(knl, {"x,z": np.float32}), "i", 32, inner_tag="l.0")
    found = lp.get_mem_access_map(knl, within="not id:c").group_by("variable", "variable_tags", "direction")
    left = frozenset([lp.LegacyStringInstructionTag("left")])
    for name, tags, direction, number in (("x", left, "load", 14), ("x", None, "load", 7), ("y", ["out"], "store", 7),
                                          ("z", (), "load", 7), ("w", (), "store", 7)):
        key = lp.MemAccess(variable=name, variable_tags=tags, direction=direction)
        assert found[key].eval_with_dict({"n": 7}) == number
    assert len(found) == 5
    with pytest.raises(lp.LoopyError, match="'x' has several tags in 'c'"):
        lp.get_mem_access_map(knl)
