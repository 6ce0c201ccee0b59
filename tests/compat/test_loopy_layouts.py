"""Layouts of arrays in programs of loopy: calls check them, and objects and steps show them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopkit as lk
import loopkit.compat.loopy as lp
from loopkit.compat.loopy.kernel.array import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from loopkit.compat.loopy.transform.data import add_padding_to_avoid_bank_conflicts

HOST = lp.ExecutableCTarget()


def make(text: str, data: Any = None, domains: str = "{[i,j]: 0<=i<m and 0<=j<n}", **options: Any) -> Any:
    return lp.make_kernel(domains, text, data, target=HOST, **options)


@pytest.mark.parametrize("order", ["C", "F"])
def test_calls_expect_the_order_of_the_program(order: Any) -> None:
    unit = make("y[i, j] = 2*x[i, j] + z[i]", default_order=order)
    x, z = np.arange(6.).reshape(2, 3, order=order), np.ones(2)
    (y,) = unit(x=x, z=z)[1]
    assert y.tolist() == (2*x + 1).tolist()
    assert y.flags[f"{order}_CONTIGUOUS"]
    with pytest.raises(ValueError, match=f"strides mismatch: 'x' has the strides .* declared in order {order}"):
        unit(x=np.asarray(x, order="F" if order == "C" else "C"), z=z)
    assert unit(x=np.empty((0, 3)).T.reshape(0, 3), z=np.empty(0))[1][0].shape == (0, 3)
    if order == "C":
        unchecked = lp.set_options(unit, skip_arg_checks=True)
        assert unchecked(x=np.asfortranarray(x), z=z)[1][0].tolist() == y.tolist()


def test_arguments_without_first_values_are_made() -> None:
    fields: dict[str, Any] = {"is_input": False, "is_output": True}
    unit = make("f[i] = 2*x[i]\ny[i] = f[i] + f[i + 1]", [
        lp.GlobalArg("f", **fields), lp.GlobalArg("nothing", np.int8, ("m + 2",), **fields), ...],
        "{[i]: 0<=i<m}", seq_dependencies=True)
    _, (f, nothing, y) = unit(x=np.arange(1., 4.))
    assert (f.tolist(), nothing.tolist(), y.tolist()) == ([2, 4, 6, 0], [0]*5, [2, 4, 6])
    with pytest.raises(lp.LoopyError, match="'x' is missing, and its dtype is not known"):
        unit(m=3)
    with pytest.raises(lp.LoopyError, match="'f' is missing, and its shape is not known"):
        make("f[s[i]] = f[s[i]]", [lp.GlobalArg("f", np.int8, **fields), ...], "{[i]: 0<=i<m}")(s=np.zeros(3, np.int32))


def shape(unit: Any) -> Any:
    return unit["loopy_kernel"].temporary_variables["t"].shape


def test_objects_show_shapes_of_temporaries() -> None:
    unit = make("<> t = x[i, j]\ny[i, j] = t", domains="{[i,j]: 0<=i<16 and 0<=j<4}")
    assert shape(unit) == ()
    unit = lp.tag_inames(unit, {"i": "l.0", "j": "ilp"})
    assert shape(lp.preprocess_kernel(unit)) == (4,)
    x = np.arange(64.).reshape(16, 4)
    assert (lp.preprocess_kernel(unit)(x=x)[1][0] == x).all()
    unit = make("<> t[i] = x[i, j]\ny[i, j] = t[i]", domains="{[i,j]: 0<=i<16 and 0<=j<4}")
    assert shape(lp.preprocess_kernel(lp.tag_inames(unit, {"i": "l.0", "j": "ilp"}))) == (16, 4)
    assert shape(make("<> t[s[i]] = x[i]", domains="{[i]: 0<=i<m}")) is lp.auto


def test_an_axis_is_separated_when_its_extent_is_known() -> None:
    unit = lp.make_copy_kernel("C,sep").copy(target=HOST)
    with pytest.raises(lp.LoopyError, match="An axis of 'output' cannot be separated"):
        unit(input=np.zeros((3, 2)))
    _, parts = lp.fix_parameters(unit, n1=2)(input=np.arange(6.).reshape(3, 2))
    assert np.array(parts).tolist() == [[0, 2, 4], [1, 3, 5]]
    back = lp.fix_parameters(lp.make_copy_kernel("F,F", "C,sep").copy(target=HOST), n1=2)
    assert back(input=parts)[1][0].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_rows_in_shared_memory_get_an_odd_length() -> None:
    unit = make("b[i, j] = a[j, i]", [lp.GlobalArg("a,b", np.float32, (16, 16))], "{[i,j]: 0<=i,j<16}")
    unit = lp.add_prefetch(lp.tag_inames(unit, {"i": "l.1", "j": "l.0"}), "a", ["i", "j"], default_tag="l.auto")
    padded = add_padding_to_avoid_bank_conflicts(unit, None)
    assert "shared float32 a_fetch[16][17]" in str(lk.lower(padded["loopy_kernel"].core, stop="storage"))
    assert str(add_padding_to_avoid_bank_conflicts(padded, None)) == str(padded)
    a = np.arange(256, dtype=np.float32).reshape(16, 16)
    assert (padded(a=a)[1][0] == a.T).all()


def test_a_reference_of_padded_arrays() -> None:
    unit = make("y[i, j] = 2*x[i, j]", [lp.GlobalArg("x", np.float32), ...], "{[i,j]: 0<=i<n and 0<=j<10}")
    lp.auto_test_vs_ref(unit, None, lp.add_padding(unit, "x", 0, 64), parameters={"n": 5})


def test_a_reference_of_arrays_with_split_axes() -> None:
    unit = make("y[i, j] = x[i, j] + y[i, j]", [lp.GlobalArg("x,y", np.float32, ("n", 10)), ...],
                "{[i,j]: 0<=i<n and 0<=j<10}")
    split = lp.split_array_dim(unit, [("x", 0), ("y", 1)], 4, auto_split_inames=False)
    lp.auto_test_vs_ref(unit, None, lp.add_padding(split, "x", 0, 64), parameters={"n": 7})
    wrong = make("y[i, j] = x[i, j] - y[i, j]", [lp.GlobalArg("x,y", np.float32, ("n", 10)), ...],
                 "{[i,j]: 0<=i<n and 0<=j<10}")
    with pytest.raises(lk.EquivalenceError):
        lp.auto_test_vs_ref(wrong, None, split, parameters={"n": 7})
    other = make("y[i, j, k] = x[i, j, k] + y[i, j, k]", [lp.GlobalArg("x,y", np.float32, (2, 3, 4))],
                 "{[i,j,k]: 0<=i<2 and 0<=j<3 and 0<=k<4}")
    with pytest.raises(lp.LoopyError, match=r"the axes of '[xy]' are not those of the reference"):
        lp.auto_test_vs_ref(lp.fix_parameters(unit, n=7), None, other)


def test_kernels_with_one_meaning_are_equal() -> None:
    domains = ["{[i]: 0<=i<10}", "{[m]: 0<=m<20}"]
    for names in ("acc[m]", "acc"):
        assert make(f"<> {names} = a[m, i]", domains=domains) == make(f"<> {names} = a[m, i]", domains=domains)
    array, number = make("<> acc[m] = a[m, i]", domains=domains), make("<> acc = a[m, i]", domains=domains)
    assert array != number
    assert lp.privatize_temporaries_with_inames(number, "m", "acc") == array
    assert lp.tag_inames(number, {"m": "unr"}) != number
    assert lp.add_dtypes(number, {"a": np.float32}) != number
    assert len({number["loopy_kernel"], number["loopy_kernel"].copy()}) == 1


def test_arrays_of_any_order_fit() -> None:
    unit = make("y[i, j] = 2*x[i, j]", default_order=lp.auto, default_offset=lp.auto)
    x = np.arange(6.).reshape(2, 3)
    for own in (x, np.asfortranarray(x), x[::-1], x[:, ::2]):
        assert unit(x=own)[1][0].tolist() == (2*own).tolist()
    with pytest.raises(lp.LoopyError, match="default_order='K'"):
        make("y[i, j] = 2*x[i, j]", default_order="K")


def test_tags_of_axes_as_objects() -> None:
    x = np.arange(6.).reshape(2, 3)
    for tags, fits in (([FixedStrideArrayDimTag(1), FixedStrideArrayDimTag(2)], [False, True]),
                       ([FixedStrideArrayDimTag(lp.auto)]*2, [True, True]),
                       ([FixedStrideArrayDimTag(lp.auto), FixedStrideArrayDimTag(1)], [True, False]),
                       ([ComputedStrideArrayDimTag(0), ComputedStrideArrayDimTag(1)], [False, True])):
        unit = make("y[i, j] = 2*x[i, j]", [lp.GlobalArg("x", np.float64, (2, 3), dim_tags=tags), ...],
                    "{[i,j]: 0<=i<2 and 0<=j<3}")
        for own, is_fit in zip((x, np.asfortranarray(x)), fits, strict=True):
            if is_fit:
                assert unit(x=own)[1][0].tolist() == (2*x).tolist()
            else:
                with pytest.raises(lk.CallError, match="must have the stride 1"):
                    unit(x=own)


@pytest.mark.parametrize("text", [
    "s[i] = 2*x[t,i]\nu[i] = 3*x[t,i]\ny[t,i] = s[7-i]\nz[t,i] = u[7-i] + 1",
    "s[i] = x[t,i]\nw[t] = s[0]\nu[i] = x[t,i] + w[t]\ny[t,i] = s[7-i] + w[t]\nz[t,i] = u[7-i] + 1",
    "s[i] = x[t,i]\nu[i] = x[t,i] + s[i]\ny[t,i] = s[7-i]\nz[t,i] = u[7-i] + 1",
])
def test_temporaries_in_one_memory_are_in_use_one_after_the_other(text: str) -> None:
    """The order that the text leaves open is chosen so, where the dependences allow it."""
    lines = "\n".join(f"{line} {{id=s{k}}}" for k, line in enumerate(text.splitlines()))
    unit = lp.make_kernel("{[t,i]: 0<=t<3 and 0<=i<8}", lines, [
        *(lp.TemporaryVariable(a, np.float64, shape=(8,), address_space=lp.AddressSpace.LOCAL) for a in "su"),
        lp.GlobalArg("x", np.float64), "..."], target=lp.ExecutableCTarget())
    unit = lp.tag_inames(unit, "t:g.0, i:l.0")
    if "u[i] = x[t,i] + s[i]" in text:
        with pytest.raises(lp.LoopyError):
            lp.alias_temporaries(unit, ["s", "u"])
        return
    with pytest.raises(lp.diagnostic.VariableAccessNotOrdered):
        lp.generate_code_v2(lp.alias_temporaries(unit, ["s", "u"], synchronize_for_exclusive_use=False))
    x = np.arange(24.).reshape(3, 8)**2
    both = [dict(lp.set_options(k, return_dict=True)(x=x)[1]) for k in (unit, lp.alias_temporaries(unit, ["s", "u"]))]
    for name, expected in both[0].items():
        np.testing.assert_array_equal(both[1][name], expected)


@pytest.mark.parametrize(("second", "expected"), [
    ("b[i] = 2*i", [0, 2, 4, 6]), ("b[i] = a[i] + i", [1, 2, 3, 4]), ("b[i] = 2.5", None), ("b[i+1] = 2*i", None)])
def test_temporaries_whose_uses_are_not_apart_become_one_array(second: str, expected: list[int] | None) -> None:
    unit = make(f"<> a[i] = 1\n<> {second}\ny[i] = a[i]\nz[i] = b[i] + y[i]", None, "{[i]: 0<=i<4}",
                seq_dependencies=True)
    if expected is None:
        with pytest.raises(lp.LoopyError, match="cannot share"):
            lp.alias_temporaries(unit, ["a", "b"], synchronize_for_exclusive_use=False)
        return
    unit = lp.alias_temporaries(unit, ["a", "b"], synchronize_for_exclusive_use=False)
    assert [out.tolist() for out in unit()[1]] == [expected, [2*x for x in expected]]
