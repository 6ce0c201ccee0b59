"""Options of statements, blocks with options, markers, and requested barriers in the text."""
from __future__ import annotations

import numpy as np
import pytest

import loopkit as lk
from tests.golden_files import GoldenFiles

BOX = "{[i,j]: 0<=i<n and 0<=j<m}"


def options(text: str, domains: str | list[str] = BOX) -> dict[str, tuple[set[str], set[str], set[str]]]:
    """The dependences, the nosync claims and the tags of each statement."""
    return {s.id: (set(s.options.depends_on), set(s.options.no_sync_with), set(s.options.tags))
            for s in lk.make_kernel(domains, text).statements}


def test_defaults_of_blocks() -> None:
    knl = lk.make_kernel(BOX, """
        with {id_prefix=init, tags=a:b, inames=j}
          x[i] = 1
          y[i] = 2 {id=own, tags=c}
        end
        with {dep=init*}
          with {if=i > 2:n > 5, dep=own}
            z[i] = 3
          end
          if w[i] > 0
            z[i] = 4 {id_prefix=init}
          end
        end
        """)
    text = knl.statements_text
    assert "x[i] = 1  {id=init, tags=a:b}" in text
    assert "y[i] = 2  {id=own, tags=a:b:c}" in text
    assert "z[i] = 3  {id=insn, if=n >= 6 and i >= 3, dep=init:own}" in text
    assert "z[i] = 4  {id=init_0, if=cond, dep=init}" in text
    assert [s.inames for s in knl.statements] == [("i", "j"), ("i", "j"), ("i",), ("i",), ("i",)]
    again = lk.make_kernel(BOX, text)
    assert again.statements_text == text


def test_a_condition_of_a_block_is_evaluated_at_each_statement() -> None:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "with {if=x[i] > 0}\n x[i] = -1\n y[i] = 2\nend",
                         [lk.GlobalArg("x,y", np.int32), "n"])
    assert knl(x=np.array([1, 0, 2], np.int32), y=np.zeros(3, np.int32)).y.tolist() == [0, 0, 0]


def test_markers_forward_their_dependences() -> None:
    found = options("""
        x[i] = 1 {id=a}
        y[i] = 1 {id=b}
        ... nop {id=both, dep=a:b}
        ... gbarrier {id=bar, dep=both}
        z[i] = x[i] {id=c, dep=bar, nosync=both}
        """)
    assert found["c"] == ({"a", "b"}, set(), set())
    assert "for i" in lk.make_kernel(BOX, "for i\n ... nop {inames=j}\nend\nfor i\n x[i] = 1\nend").statements_text


@pytest.mark.parametrize(("option", "expected"), [
    ("dep_query=writes:x", {"a", "c"}), ("dep_query=writes:x and not id:a", {"c"}),
    ("dep_query=tag:t or (id:c)", {"b", "c"}), ("dep=mark", {"b"}),
    ("dep_query=in_kernel:kernel and reads:x, dep=a", {"a", "b"})])
def test_dependences_by_match_expressions(option: str, expected: set[str]) -> None:
    found = options("x[i] = 1 {id=a}\ny[i] = x[i] {id=b, tags=t}\nx[i] = 3 {id=c}\n"
                    f"... nop {{id=mark, dep_query=reads:x}}\nz[i] = 4 {{id=d, {option}}}\nx[i] = 5 {{id=e}}")
    assert found["d"][0] == expected


@pytest.mark.parametrize(("option", "expected"), [
    ("nosync=a@local", {"a"}), ("nosync=a@any:b", {"a", "b"}), ("nosync=a@global", set()),
    ("nosync_query=writes:*@local", {"a", "b"})])
def test_claims_with_a_scope(option: str, expected: set[str]) -> None:
    found = options(f"x[i] = 1 {{id=a}}\ny[i] = 2 {{id=b}}\nz[i] = 4 {{id=d, {option}}}")
    assert found["d"][1] == expected


def test_further_inames() -> None:
    """With ``+``, a statement still inherits inames from the temporaries that it reads."""
    text = "<> t = x[i]\nz[i,j] = t {inames=+j}\nw[j] = t {id=last, inames=j}"
    assert [s.inames for s in lk.make_kernel(BOX, text).statements] == [("i",), ("i", "j"), ("j",)]


def test_private_copies_of_inames() -> None:
    knl = lk.make_kernel(["{[i]: 0<=i<n}", "[i] -> {[j]: 0<=j<=i}"], """
        f(s) := x[s] + i
        a[i,j] = f(j) {dup=i:j->jj}
        b[i] = sum(j, a[i,j]) {dup=j->q}
        """, [lk.GlobalArg("x", np.int32), lk.GlobalArg("a", np.int32, shape="n,n"), "..."])
    assert knl.statements_text == \
        "for i_0, jj\n  a[i_0, jj] = x[jj] + i_0  {id=insn}\nend\nfor i\n  b[i] = sum(q, a[i, q])  {id=insn_0}\nend"
    x = np.arange(4, dtype=np.int32)
    out = lk.tag_inames(knl, "i_0:g.0")(x=x, a=np.zeros((4, 4), np.int32))
    a = np.tril(x[None, :] + np.arange(4)[:, None])
    np.testing.assert_array_equal(out.a, a)
    np.testing.assert_array_equal(out.b, a.sum(1))


def test_barriers_in_the_text(golden: GoldenFiles) -> None:
    domains = "{[i,k]: 0<=i<n and 0<=k<3}"
    knl = lk.make_kernel(domains, """
        a[i] = 2*x[i]
        ... gbarrier
        b[i] = a[n-1-i] + sum(k, x[k])
        ... lbarrier {inames=i, mem_kind=global}
        c[i] = b[i]
        """, [lk.GlobalArg("a,b,c,x", np.int32, shape="n"), "n"], assumptions="n>=3")
    assert list(map(str, knl.barriers)) == ["global barrier between insn and insn_0",
                                            "local barrier between insn_0 and insn_1"]
    x = np.arange(5, dtype=np.int32)
    np.testing.assert_array_equal(knl(x=x).c, 2*x[::-1] + 3)
    again = lk.make_kernel(domains, knl.statements_text)
    assert (again.statements_text, set(again.barriers)) == (knl.statements_text, set(knl.barriers))
    assert knl.statements_text.count("for i") == 2
    mapped = lk.split_iname(lk.add_dtypes(knl, {"x": np.int32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    code = lk.generate_code(mapped, target="cuda")
    assert len(code.kernels) == 2
    golden.check("language/barriers.cu", code)
    golden.check("language/barriers.c", lk.generate_code(mapped, target="c"))


def test_barriers_at_the_ends_of_blocks_request_nothing() -> None:
    knl = lk.make_kernel(BOX, "for j\n ... gbarrier\n a[j] = 1\n ... lbarrier\nend\n... gbarrier\nb[i] = 2\n"
                              "... gbarrier")
    assert list(map(str, knl.barriers)) == ["global barrier between insn and insn_0"]


@pytest.mark.parametrize(("text", "message"), [
    ("with {id=a}\nx[i] = 1\nend", "this option is for single statements"),
    ("with {tags=a}\nend", "There is no statement before this 'end'"),
    ("with {tags=a}\nx[i] = 1", "This 'with' has no 'end'"),
    ("x[i] = 1 {id=a, id_prefix=b}", "has an id and the prefix of one"),
    ("x[i] = 1 {mem_kind=local}", "cannot be read at 'mem_kind'"),
    ("x[i] = 1 {priority=high}", "expected an integer"),
    ("x[i] = 1\ny[i] = 2 {nosync=insn@near}", "'near' is not a scope"),
    ("x[i] = 1\ny[i] = 2 {dep_query=writes:q}", "'q' is not a"),
    ("x[i] = 1 {dup=k}", "'k' is not an iname"),
    ("x[i] = 1 {dup=i->j}", "The name 'j' is taken"),
    ("for i\n x[i] = 1 {dup=i}\nend", "A block around the statement is over 'i'"),
    ("x[i] = 1 {groups=g}\ny[i] = 1 {conflicts=g}\nx[i] = 2 {groups=g}", "is between two statements of it"),
    ("... nop", "contain no statement"),
    ("... nop {inames=k}\nx[i] = 1", "'k' is not an iname"),
    ("... nop {dep=insn}\nx[i] = 1", "'... nop' cannot depend on 'insn'"),
    ("... barrier\nx[i] = 1", "expected one of nop, gbarrier, lbarrier"),
    ("... nop {if=i > 1}\nx[i] = 1", "cannot be read at 'if'"),
    ("x[i] = 1\nif n > 2\n y[i] = 1\n ... lbarrier\n x[i] = 2\nend", "A barrier is in an 'if' block"),
])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(lk.LoopkitError) as refusal:
        lk.make_kernel(BOX, text)
    assert message in str(refusal.value)


def test_a_copy_needs_copies_of_the_inames_in_it() -> None:
    with pytest.raises(lk.ParseError, match="The bounds of 'j' depend on 'i'"):
        lk.make_kernel(["{[i]: 0<=i<n}", "{[j]: 0<=j<i}"], "b[i,j] = 2 {dup=i}")
