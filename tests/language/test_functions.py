"""Calls of functions: each gives what its function gives on views of the arrays, in the order of the text."""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from tests.property.machine import execute

N, ROWS = 3, 2
Step = Callable[[lk.LoopKernel], lk.LoopKernel]


def scaled(b: Any, a: Any) -> None:
    for i in range(N):
        b[i] = 2*a[i] + i


def summed(b: Any, a: Any) -> None:
    for i in range(N):
        b[i] = a[i] + sum(a[k] for k in range(N))


def reflected(b: Any, a: Any) -> None:
    for i in range(N):
        b[i] = b[i] + a[N - 1 - i]


def chosen(b: Any, a: Any) -> None:
    for i in range(N):
        b[i] = a[i] if a[i] > 4 else i


def in_two_loops(b: Any, a: Any) -> None:
    t = [3*a[i] for i in range(N)]
    for i in range(N):
        b[i] = t[i] + a[0]


#: Each function of Python above, and its text.
TEXTS: Mapping[Callable[..., None], str] = {
    scaled: "b[i] = 2*a[i] + i", summed: "b[i] = a[i] + sum(k, a[k])", reflected: "b[i] = b[i] + a[n-1-i]",
    chosen: "for i\nif a[i] > 4\nb[i] = a[i]\nelse\nb[i] = i\nend\nend",
    in_two_loops: "for i\n<> t[i] = 3*a[i]\nend\nfor i\nb[i] = t[i] + a[0]\nend"}

OWN_STEPS: Mapping[str, Step] = {
    "none": lambda f: f, "split": lambda f: lk.split_iname(f, "i", 2), "threads": lambda f: lk.tag_inames(f, "i:l.0"),
    "reversed": lambda f: lk.reverse(f, "i"), "prefetch": lambda f: lk.add_prefetch(f, "a", "i")}

CALLER_STEPS: Mapping[str, Step] = {
    "none": lambda k: k, "blocks": lambda k: lk.tag_inames(k, "r:g.0"), "split": lambda k: lk.split_iname(k, "r", 2),
    "inlined": lambda k: lk.inline_callable_kernel(k, "f")}


def sliced(rng: random.Random, array: str) -> tuple[str, Callable[[np.ndarray, int], Any]]:
    """The text of a slice of N elements in a loop over r, and the view that it is."""
    start, step, column = rng.randrange(2), rng.choice((1, 2)), rng.random() < 0.5
    if rng.random() < 0.3:
        part, own = f"{start + N}:{start}:-1", slice(start + N, start, -1) if start else slice(N, 0, -1)
    elif rng.random() < 0.5:
        part, own = f"{start}:{start + N*step}:{step}", slice(start, start + N*step, step)
    else:
        part, own = f"{step}*p + {start}", slice(start, start + N*step, step)
    lead = "[p]: " if "p" in part else ""
    return (f"{lead}{array}[{part}, 2*r + 1]", lambda a, r: a[own, 2*r + 1]) if column else (
        f"{lead}{array}[r, {part}]", lambda a, r: a[r, own])


@pytest.mark.parametrize("seed", range(10))
def test_calls_are_functions_of_views(seed: int) -> None:
    rng = random.Random(seed)
    reference = rng.choice([*TEXTS])
    f = lk.make_function("{[i, k]: 0<=i<n and 0<=k<n}" if reference is summed else "{[i]: 0<=i<n}", TEXTS[reference],
                         name="f")
    own, steps = rng.choice([*OWN_STEPS]), rng.choice([*CALLER_STEPS])
    try:
        f = OWN_STEPS[own](f)
    except lk.LoopkitError:
        own = "none"                        # not every step is legal in every function
    target, source = rng.choice("xy"), "x"
    (result, out), (argument, into) = sliced(rng, target), sliced(rng, source)
    update = f"{result}, " if reference is reflected else ""
    try:
        knl = lk.make_kernel("{[r, p]: 0<=r<2 and 0<=p<3}", f"for r\n{result} = f({argument}, {update}{N})\nend",
                             [lk.GlobalArg("x, y", np.float64, shape=(8, 8)), "..."], functions=[f])
        knl = CALLER_STEPS[steps](knl)
    except lk.IllegalTransformError:
        assert target == source, "the slices overlap"
        return
    data = np.random.default_rng(seed)
    arrays = {x: data.integers(0, 9, (8, 8)).astype(np.float64) for x in "xy" if x in knl.array_args}
    found = execute(lk.lower(knl), arrays, {}, rng)
    for r in range(ROWS):
        reference(out(arrays[target], r), into(arrays[source], r))
    for x, values in arrays.items():
        np.testing.assert_array_equal(found[x], values)


def test_arguments_are_evaluated_once() -> None:
    """Values, indices and conditions that read memory do not change while the function writes."""
    f = lk.make_function("{[i]: 0<=i<n}", "b[i] = b[i] + s", name="f")
    knl = lk.make_kernel("{[i]: 0<=i<4}", "x[at[0], :] = f(x[at[0], :], 4, x[0, 0]) {if=x[0, 1] > 0}",
                         [lk.GlobalArg("x", np.float64, (2, 4)), lk.GlobalArg("at", np.int32, (1,))], functions=[f])
    arrays = {"x": np.array([[1., 2., 3., 4.], [0., 0., 0., 0.]]), "at": np.array([0], np.int32)}
    found = execute(lk.lower(knl), arrays, {}, random.Random(0))
    np.testing.assert_array_equal(found["x"], [[2., 3., 4., 5.], [0., 0., 0., 0.]])


def test_sizes_from_memory() -> None:
    fill = lk.make_function("{[i]: 0<=i<n}", "y[i] = n + 1", name="fill")
    knl = lk.make_kernel("{[r]: 0<=r<3}", "y[r, :] = fill(length[r])",
                         [lk.GlobalArg("y", np.float64, (3, 4)), lk.GlobalArg("length", np.int32, (3,))],
                         functions=[fill])
    arrays = {"y": np.zeros((3, 4)), "length": np.array([1, 0, 3], np.int32)}
    found = execute(lk.lower(knl), arrays, {}, random.Random(0))["y"]
    np.testing.assert_array_equal(found, [[2, 0, 0, 0], [0, 0, 0, 0], [4, 4, 4, 0]])


def test_a_call_declares_a_temporary() -> None:
    total = lk.make_function("{[k]: 0<=k<n}", "r = sum(k, a[k])", name="total")
    knl = lk.make_kernel("{[i]: 0<=i<2}", "for i\n<float64> t = total(x[i, :], 3)\ny[i] = 2*t\nend",
                         [lk.GlobalArg("x", np.float64, (2, 3)), lk.GlobalArg("y", np.float64, (2,))],
                         functions=[total])
    arrays = {"x": np.array([[1., 2., 3.], [4., 5., 6.]]), "y": np.zeros(2)}
    np.testing.assert_array_equal(execute(lk.lower(knl), arrays, {}, random.Random(0))["y"], [12., 30.])


def test_functions_call_functions() -> None:
    """Also through other names of the same inames, which the texts of both functions have."""
    inner = lk.make_function("{[i, j]: 0<=i,j<4}", "c[i, j] = 2*a[i, j] + 3*b[j, i]", name="inner")
    outer = lk.make_function("{[i, j]: 0<=i,j<4}", "[i, j]: g[j, i] = inner([i, j]: e[i, j], [j, i]: f[i, j])",
                             name="outer", functions=[inner])
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j,k<4}", "[j, i]: z[i, k, j] = outer([i, j]: x[i, j, k], y[k, :, :])",
                         functions=[outer])
    x, y = np.random.default_rng(0).integers(0, 9, (2, 4, 4, 4)).astype(float)
    knl = lk.add_dtypes(knl, {"x,y": np.float64})
    found = execute(lk.lower(knl), {"x": x, "y": y, "z": np.zeros((4, 4, 4))}, {}, random.Random(0))["z"]

    def of_inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 2*a + 3*b.T
    for k in range(4):
        g = of_inner(x[:, :, k], y[k].T).T
        np.testing.assert_array_equal(found[:, k, :], g.T)
    names = {s.options.calls for s in knl.statements}
    assert names == {("insn", "outer_insn")}
    assert lk.inline_callable_kernel(knl, "inner").statements[0].options.calls == ("insn",)
    assert not lk.inline_callable_kernel(knl, "inner, outer").calls


def test_tags_and_loops_of_a_function_stay() -> None:
    f = lk.split_iname(lk.make_function("{[i]: 0<=i<n}", "b[i] = 2*a[i]", name="f"), "i", 4, inner_tag="l.0")
    knl = lk.make_kernel("{[i]: 0<=i<m}", "for i\ny[i, :] = f(x[i, :], n)\nend", functions=[f])
    assert {x: str(tag) for x, tag in knl.tags.items()} == {"i_inner": "l.0"}
    assert knl.statements_text.splitlines()[:2] == ["for i, i_outer, i_inner [l.0]", "  # y[i, :] = f(x[i, :], n)"]


def test_slices_run_backwards() -> None:
    twice = lk.make_function("{[i]: 0<=i<n}", "b[i] = 2*a[i]", name="twice")
    knl = lk.make_kernel("{[r]: 0<=r<m}", """
        y[r, :] = twice(x[r, ::-1], q)
        z[r, :] = twice(x[r, q-1:1:-2], (q-1)//2)
        w[r, :] = twice(x[r, 3::-1], 4)
        """, [lk.GlobalArg("x", np.int32, shape="m, q"), "..."], functions=[twice], assumptions="q>=4")
    x = np.arange(14, dtype=np.int32).reshape(2, 7)
    out = knl(x=x)
    np.testing.assert_array_equal(out.y, 2*x[:, ::-1])
    np.testing.assert_array_equal(out.z, 2*x[:, 6:1:-2])
    np.testing.assert_array_equal(out.w, 2*x[:, 3::-1])


def test_an_output_of_a_strided_slice_ends_with_the_slice() -> None:
    """Only one whose elements are a constant apart from the input's, as a stencil's, is as large as the input."""
    copy = lk.make_function("{[i]: 0<=i<n}", "b[i] = a[i]", name="copy")
    for text, size in (("y[0:10:2]", 9), ("y[9:-1:-2]", 10), ("y[2:12:2]", 11), ("y[1:12:2]", 11)):
        knl = lk.make_kernel("{[q]: 0<=q<1}", f"{text} = copy(x[1:11:2], 5) {{inames=q}}", functions=[copy])
        assert knl(x=np.ones(11)).y.shape == (size,), text


# Refusals

ADD = lk.make_function("{[i]: 0<=i<n}", "b[i] = a[i] + 1", name="add")
SWAP = lk.make_function("{[i]: 0<=i<4}", "<> t = a[i]\na[i] = b[i]\nb[i] = t", name="swap")
FIXED = lk.make_function("{[i]: 0<=i<4}", "b[i] = a[i] + 1", [lk.GlobalArg("a", shape=(8,)), "..."], name="fixed")

#: Each text with its error, and a part of the message.
REFUSED: Mapping[str, tuple[str, type[lk.LoopkitError], str]] = {
    "unknown function": ("[i]: y[i] = sub([i]: x[i], 4)", lk.UnknownNameError, "'sub' is not a function"),
    "unknown function of slices": ("y[:] = sub(x[:], 4)", lk.UnknownNameError, "'sub' is not a function"),
    "too few arguments": ("y[:] = add(x[:])", lk.ParseError, "'add' has 2 arguments (a, n), and this call has 1"),
    "too many arguments": ("y[:] = add(x[:], 4, 4)", lk.ParseError, "2 arguments (a, n), and this call has more"),
    "too few results": ("y[:] = swap(x[:], y[:])", lk.ParseError, "'swap' has 2 results (a, b), and this call has 1"),
    "wrong rank": ("y[:, :] = add(x[:], 4)", lk.ParseError, "'b' of the function 'add' has 1 axis"),
    "an element for a slice": ("y[0] = add(x[:], 4)", lk.ParseError, "this slice of 'y' has none"),
    "both kinds of axes": ("[i]: y[i, :] = add(x[:], 4)", lk.ParseError, "The slice of 'y' has both"),
    "a written expression": ("2*y[:] = add(x[:], 4)", lk.ParseError, "cannot be read"),
    "a call in an expression": ("y[0] = 1 + add(x[:], 4)", lk.ParseError, "'add' is called in an expression"),
    "a number for an array": ("y[:] = add(3, 4)", lk.ParseError, "cannot be read at '3'"),
    "a slice for a number": ("y[:] = add(x[:], x[:])", lk.ParseError, "'n' of the function 'add' is a value"),
    "no result": ("add(x[:], 4)", lk.ParseError, "has 1 result (b), and this call has none"),
    "several results of a declaration": ("<> t[:], y[:] = swap(t[:], y[:])", lk.ParseError, "declares no temporary"),
    "a real size": ("y[:] = add(x[:], 4.5)", lk.ParseError, "'n' of 'add' is an integer"),
    "from the end": ("y[-4:] = add(x[:], 4)", lk.ParseError, "not from its end"),
    "step 0": ("y[0:4:0] = add(x[:], 4)", lk.ParseError, "The step of a slice is a number"),
    "a negative step alone": ("y[::-1] = add(x[:], 4)", lk.ParseError, "The last element of 'y' is not known"),
    "an iname twice": ("[i, i]: y[i] = add(x[:], 4)", lk.ParseError, "'i' is there twice"),
    "no iname": ("[m]: y[m] = add(x[:], 4)", lk.UnknownNameError, "'m' is not an iname"),
    "a triangle": ("[j]: y[j] = add([k]: x[k], 2)", lk.BoundsError, "outside of the slice of 'y'"),
    "an iname of the call": ("for i\n[i]: y[i] = add(x[i, :], 4)\nend", lk.ParseError, "is also an iname of the call"),
    "two slices of one argument": ("x[:], y[:] = swap(y[:], x[:])", lk.ParseError, "reads and writes 'a'"),
    "outside of a slice": ("[i]: y[i] = add([i]: x[i], 5)", lk.BoundsError, "add_insn[i_0=4] writes b[4]"),
    "an unknown argument": ("y[:] = add(x=x[:], n=4)", lk.ParseError, "'add' does not have an argument 'x'"),
    "an argument twice": ("y[:] = add(x[:], a=x[:])", lk.ParseError, "'a' is passed twice"),
    "a name before a place": ("y[:] = add(n=4, x[:])", lk.ParseError, "stands behind one with a name"),
    "outside by a size": ("[i]: y[i] = add([i]: x[i], n)", lk.BoundsError, "with n = 5: add_insn[i_0=4] writes b[4]"),
    "a smaller array": ("y[:] = fixed([i]: x[i])", lk.ShapeError, "passes 4 elements along an axis of 'a'"),
    "a name of a function": ("add[i] = 1", lk.NameConflictError, "The function 'add' is already in use"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    text, error, message = REFUSED[name]
    domains = ["{[i]: 0<=i<4}", "{[j]: 0<=j<1}", "{[k]: 0<=k<2}"]
    with pytest.raises(error) as caught:
        lk.make_kernel(domains, text, functions=[ADD, SWAP, FIXED])
    assert message in str(caught.value)


def test_arguments_with_names() -> None:
    less = lk.make_function("{[k]: 0<=k<4}", "d[k] = c*u[k] - b[k]", name="less")
    for text in ("less(u=p[i, :], c=2, b=q[i, :])", "less(q[i, :], u=p[i, :], c=2)", "less(q[i, :], 2, p[i, :])"):
        knl = lk.make_kernel("{[i]: 0<=i<m}", f"y[i, :] = {text}", functions=[less])
        assert "y[i, k] = 2*p[i, k] - q[i, k]" in knl.statements_text


def test_functions_with_steps() -> None:
    """Their steps were proven for different arrays, their own assumptions and their own order."""
    back = lk.reverse(ADD, "i")
    overlap = r"passes 'x' as 'b' and as 'a'.*\n.*add_insn\[i_0=1\] writes x\[1\]"
    with pytest.raises(lk.IllegalTransformError, match=overlap):
        lk.make_kernel("{[i]: 0<=i<n}", "x[1:] = add(x[:], n)\ny[i] = i", functions=[back])
    lk.make_kernel("{[i]: 0<=i<n}", "x[n:] = add(x[:], n)\ny[i] = i", functions=[back])
    even = lk.split_iname(lk.make_function("{[i]: 0<=i<n}", "b[i] = i", name="f", assumptions="n mod 2 = 0"), "i", 2)
    with pytest.raises(lk.PreconditionError, match=r"mod 2 = 0 and n >= 0, which does not .* with n = 1"):
        lk.make_kernel("{[i]: 0<=i<n}", "y[:] = f(n)\nx[i] = i", functions=[even])
    two = lk.make_function("{[i]: 0<=i<n}", "<> t = 2*a[i]\nb[i] = t", name="f")
    two = lk.distribute_loop(two, "i", "insn_0")
    with pytest.raises(lk.PreconditionError, match="'insn_0' reads values of 't' that a later iteration overwrites"):
        lk.make_kernel("{[i]: 0<=i<4}", "y[:] = f(x[:], 4)\nz[i] = i", functions=[two])
    with pytest.raises(lk.PreconditionError, match=r"b\[0\] and b\[1\] are both y\[0\], and the steps of 'add'"):
        lk.make_kernel("{[i]: 0<=i<4}", "[i]: y[i // 2] = add(x[:], 4)", functions=[back])
    with pytest.raises(lk.UndecidedError, match=r"Whether the elements of 'y' .* are different"):
        lk.make_kernel("{[i]: 0<=i<4}", "[i]: y[at[i]] = add(x[:], 4)", functions=[back])
    # the host cannot end a launch in a loop whose bound is read from memory
    parallel = lk.tag_inames(lk.make_function("{[i]: 0<=i<4}", "b[i] = a[i] + 1", name="f"), "i:g.0")
    with pytest.raises(lk.UndecidedError, match="make_kernel: whether it keeps the order of two instances of 'f_insn'"):
        lk.make_kernel("{[r]: 0<=r<m}", "<int32> m = length[0]\nfor r\ny[r:] = f(x[:])\nx[:] = f(y[r:])\nend",
                       functions=[parallel])


def test_merge() -> None:
    one = lk.make_function("{[i]: 0<=i<n}", "b[i] = a[i] + 1", name="one")
    two = lk.make_function("{[r]: 0<=r<1}", "b[:] = one(a[:], n)\nc[r] = 1", name="two", functions=[one])
    knl = lk.make_kernel("{[r]: 0<=r<m}", "y[r, :], z[r, :] = two(x[r, :], 4)", functions=[two])
    merged = lk.merge([lk.tag_inames(knl, "r:g.0"), lk.split_iname(one, "i", 2)])
    assert str(merged.tags["r"]) == "g.0"
    assert {"i_outer", "i_inner"} <= merged.all_inames()
    assert lk.merge([one]) is one
    recursive = lk.make_function("{[r]: 0<=r<1}", "b[:], c[:] = two(a[:], n)", name="one", functions=[two])
    with pytest.raises(lk.PreconditionError, match=r"The function 'two' calls itself \(two -> one -> two\)"):
        lk.merge([knl, two, recursive])
    with pytest.raises(lk.PreconditionError, match="these are 'kernel' and 'add'"):
        lk.merge([knl, ADD])


def test_a_script_has_the_functions() -> None:
    f = lk.split_iname(ADD, "i", 2)
    knl = lk.tag_inames(lk.make_kernel("{[r]: 0<=r<m}", "y[r, :] = add(x[r, :], 4)", functions=[f]), "r:g.0")
    made: dict[str, Any] = {}
    exec(knl.history.script(), made)
    assert made["knl"] == knl


def test_functions_with_options_blocks_and_functions_of_numbers() -> None:
    twice = lk.ScalarFunction("twice", 1, text={"c": "(2*{0})"}, reference=lambda x: 2*x)
    f = lk.make_function("{[j]: 0<=j<n}", "b[j] = twice(a[j]) if a[j] > 0 else 3*a[j]", name="f", functions=[twice])
    knl = lk.make_kernel("{[r]: 0<=r<m}", """
        with {id_prefix=first, tags=mine}
            y[r, :] = f(x[r, :], 4)
        end
        ... gbarrier
        z[r] = y[r, 0] {dep_query=tag:mine}
        """, functions=[f])
    assert list(knl.functions) == ["twice"]
    assert [b.kind for b in knl.barriers] == ["global"]
    assert knl.statement("insn").options.depends_on == {"f_insn"}
    x = np.arange(-4, 8.0).reshape(3, 4)
    got = knl(x=x)
    assert np.array_equal(got.y, np.where(x > 0, 2*x, 3*x))
    assert np.array_equal(got.z, got.y[:, 0])
    with pytest.raises(lk.ParseError, match="The call cannot have a copy of 'r'"):
        lk.make_kernel("{[r]: 0<=r<m}", "y[r, :] = f(x[r, :], 4) {dup=r}", functions=[f])
