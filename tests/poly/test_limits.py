"""Every computation of isl has a budget, and the long ones are phrased to need little of it."""
from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

import loopkit as lk
from loopkit.kernel.history import TRANSFORMATIONS
from loopkit.poly import limits
from loopkit.show.pictures import PICTURES

CONTEXT = isl.DEFAULT_CONTEXT


def mapped() -> lk.LoopKernel:
    knl = lk.make_kernel("{[i,k]: 0<=i<n and 0<=k<m}", "y[i] = sum(k, a[i,k]*x[k])", assumptions="n mod 4 = 0")
    return lk.tag_inames(lk.add_dtypes(knl, {"a,x": np.float32}), "i:g.0")


def refusal() -> lk.IllegalTransformError:
    knl = lk.make_kernel("{[i,j]: 1<=i,j<n}", "a[i,j] = a[i-1,j+1]")
    with pytest.raises(lk.IllegalTransformError) as caught:
        lk.interchange(knl, "i", "j")
    return caught.value


def storage_refusal() -> lk.StorageError:
    knl = lk.make_kernel("{[i]: 0<=i<n}", "<> t = 2*x[i]\ny[i] = t", temporary_variables=[
        lk.TemporaryVariable("t", address_space="private")])
    with pytest.raises(lk.StorageError) as caught:
        lk.expand(knl, "t", "i")
    return caught.value


# All that users call

KERNEL, REFUSAL, STORAGE = mapped(), refusal(), storage_refusal()
FUNCTION = lk.make_function("{[j]: 0<=j<n}", "b[j] = 2*a[j]", name="f")
CALLER = lk.make_kernel("{[i]: 0<=i<m}", "y[i, :] = f(x[i, :], 4)", functions=[FUNCTION])
FUNCTION = lk.split_iname(FUNCTION, "j", 2)
DATA = {"a": np.ones((4, 3), np.float32), "x": np.ones(3, np.float32)}


def fresh() -> lk.LoopKernel:
    """A kernel of which nothing is known yet."""
    return replace(KERNEL, derived=KERNEL.derivation, statements=tuple(
        replace(s, domain=s.domain.named(s.domain.set)) for s in KERNEL.statements))


def with_rule() -> lk.LoopKernel:
    return lk.extract_subst(KERNEL, "load", "x[s]", "s")


#: By name; what ``lk`` offers beside them are transformations, which have their budget from ``@transform``.
CALLS: dict[str, Callable[[], object]] = {
    "make_kernel": lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", assumptions="n>=1"),
    "make_einsum": lambda: lk.make_einsum("ij,j->i", "a, x"),
    "make_copy_kernel": lambda: lk.make_copy_kernel("F,F", shape=(2, "n")),
    "fuse_kernels": lambda: lk.fuse_kernels([fresh(), fresh()]),
    "diff_kernel": lambda: lk.diff_kernel(fresh(), "y", "x"),
    "find_instructions": lambda: lk.find_instructions(fresh(), "reads:x"),
    "make_function": lambda: lk.make_function("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="f"),
    "merge": lambda: lk.merge([CALLER, FUNCTION]),
    "lower": lambda: lk.lower(fresh()),
    "generate_code": lambda: lk.generate_code(fresh(), target="c"),
    "verify": lambda: lk.verify(fresh(), full=True),
    "check_legal": lambda: lk.check_legal(fresh()),
    "check_races": lambda: lk.check_races(fresh()),
    "check_bounds": lambda: lk.check_bounds(fresh()),
    "check_coverage": lambda: lk.check_coverage(fresh()),
    "check_barriers": lambda: lk.check_barriers(fresh()),
    "compile": lambda: lk.compile(fresh(), target="c"),
    "check_equivalent": lambda: lk.check_equivalent(fresh(), fresh(), {"n": 4, "m": 3}, target="c"),
    "emulate": lambda: lk.emulate(fresh(), **DATA),
    "replay": lambda: lk.replay(fresh(), lk.History(KERNEL.history.steps[:1])),
    "a call": lambda: lk.compile(fresh(), target="c")(**DATA),
    "equality": lambda: fresh() == KERNEL,
    "pickling": lambda: lk.split_iname(fresh(), "k", 4).__getstate__(),
    "the text of a stage": lambda: str(lk.lower(fresh(), stop="barriers")),
    "a kernel's text": lambda: str(fresh()),
    "a kernel's statements": lambda: fresh().statements_text,
    "a kernel's domains": lambda: fresh().domains_text,
    "get_op_map": lambda: lk.get_op_map(fresh()),
    "get_mem_access_map": lambda: lk.get_mem_access_map(fresh()),
    "get_synchronization_map": lambda: lk.get_synchronization_map(fresh()),
    "gather_access_footprints": lambda: lk.gather_access_footprints(fresh()),
    "gather_access_footprint_bytes": lambda: lk.gather_access_footprint_bytes(fresh()),
    "the sum of counts": lambda: str(lk.get_op_map(fresh()).sum()),
    "the value of counts": lambda: lk.get_op_map(fresh()).eval_and_sum({"n": 8, "m": 3}),
    "diff": lambda: lk.diff(fresh(), lk.split_iname(fresh(), "k", 4)),
    "explain": lambda: lk.explain(fresh()),
    "review": lambda: lk.review(fresh(), f"{tempfile.mkdtemp()}/page.html"),
    "get_kennedy_unweighted_fusion_candidates": lambda: lk.get_kennedy_unweighted_fusion_candidates(fresh(), ["i"]),
    "find_unused_axis_tag": lambda: lk.find_unused_axis_tag(fresh(), "g", "reads:x"),
    "find_rules_matching": lambda: f"{lk.find_rules_matching(fresh(), '*')}{fresh()}",
    "find_one_rule_matching": lambda: lk.find_one_rule_matching(with_rule(), "load") + str(fresh()),
    "assert_golden": lambda: lk.assert_golden(fresh(), f"{tempfile.mkdtemp()}/code.cu", update=True),
    "the steps of a kernel": lambda: str(lk.split_iname(fresh(), "k", 4).history.show()),
    "a code as HTML": lambda: lk.generate_code(fresh(), target="c")._repr_html_(),
    "a transformation": lambda: lk.split_iname(fresh(), "k", 4),
    "hints": lambda: refusal_hints(),
    "a hint about storage": lambda: STORAGE.hint,
    "a refusal's replay": lambda: REFUSAL.replay(),
    "a refusal's picture": lambda: REFUSAL.plot(),
    "a refusal as HTML": lambda: REFUSAL._repr_html_(),
    "a card": lambda: fresh()._repr_html_(),
    **{f"the picture {name}": lambda name=name: fresh().plot(name) for name in PICTURES},  # type: ignore[misc]
}


def refusal_hints() -> tuple[str, ...]:
    assert REFUSAL._tried is not None
    return tuple(REFUSAL._tried(()))


@pytest.fixture
def nothing_beside() -> Iterator[None]:
    """isl answers nothing outside of a bounded step."""
    CONTEXT.reset_operations()
    CONTEXT.set_max_operations(1)
    yield
    CONTEXT.set_max_operations(0)


@pytest.mark.deep(every=23)
@pytest.mark.usefixtures("nothing_beside")
@pytest.mark.parametrize("name", CALLS)
def test_isl_is_asked_within_a_budget_only(name: str) -> None:
    CALLS[name]()
    assert CONTEXT.get_max_operations() == 1, "the limit that was there is back"


def test_nothing_that_users_call_is_left_out() -> None:
    functions = {name for name in lk.__all__ if inspect.isfunction(getattr(lk, name))}
    assert functions - TRANSFORMATIONS.keys() <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_the_end_of_the_budget_is_no_other_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, or the answer does without: no ParseError, no crash, and no text as if nothing had been."""
    monkeypatch.setattr(limits, "BUDGET", 3)
    try:
        said = str(CALLS[name]())
    except lk.UndecidedError as err:
        said = str(err)
    # a hint that nobody found, what asks nothing, and pictures that leave something out
    assert "isl stopped after 3 operations" in said or name in ("hints", "a hint about storage", "replay", "equality") \
        or (name in ("a refusal's picture", "a refusal as HTML") and ", ..., " in said) or "distances unknown" in said


# Questions that once took for ever

DOMAINS = {
    "a triangle": "{[a, b, c, d, e]: 0<=a<16 and 0<=b<6 and 0<=c<=b and 0<=d<5 and 0<=e<5}",
    "a corner": "{[a, b, c, d, e]: 0<=a<6 and 0<=b<2 and 0<=c<3 and 0<=d<=2-b and 0<=e<2}",
    "a box": "{[a, b, c, d, e]: 0<=a<5 and 0<=b<6 and 0<=c<5 and 0<=d<5 and 0<=e<7}",
}


@pytest.mark.parametrize("step", [lk.add_prefetch, lk.precompute])
@pytest.mark.parametrize("swept", [("f_outer", "f_inner"), ("f_outer", "f_inner", "e")])
@pytest.mark.parametrize("domain", DOMAINS)
def test_copies_of_what_joined_loops_use(domain: str, swept: tuple[str, ...], step: Callable[..., lk.LoopKernel],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """Four joined inames leave quotients of quotients: what a copy holds is known in closed form before it is used."""
    knl = lk.make_kernel(DOMAINS[domain], """
        u(a, b, c, d, e) := 2*x[a,b,c,d,e] + x[a,b,c,d,e+1]
        y[a,b,c,d,e] = u(a, b, c, d, e)
        """)
    knl = lk.split_iname(lk.join_inames(knl, ["a", "b", "c", "d"], "f"), "f", 16)
    monkeypatch.setattr(limits, "BUDGET", 150_000)
    knl = step(knl, "x" if step is lk.add_prefetch else "u", swept)
    assert "exists" not in knl.domains_text


# Optional questions

#: isl needs about 11_000 operations to take them out of a box.
HOLES = " and ".join(f"not ({c} <= i <= {c + 2} and {c} <= j <= {c + 1})" for c in range(0, 30, 5))


def holes() -> isl.Set:
    return isl.Set(f"[n] -> {{ [i, j] : 0 <= i, j < n and {HOLES} }}")


def cost(question: Callable[[], object]) -> int:
    """Operations that *question* takes."""
    with limits.bounded("measuring"):
        start = limits._used()
        question()
        return limits._used() - start


def failing() -> isl.Set:
    raise isl.Error("original tableau does not correspond to original basic map")


def test_an_optional_question_has_its_answer_or_another() -> None:
    with limits.bounded("asking"):
        assert limits.affordable(holes, otherwise=None).is_equal(holes())
        assert limits.affordable(holes, otherwise=None, budget=100) is None
        assert limits.affordable(failing, otherwise=None) is None
        with pytest.raises(ZeroDivisionError):
            limits.affordable(lambda: 1 // 0, otherwise=0)


def test_optional_questions_outside_of_a_step_are_limited_too() -> None:
    assert CONTEXT.get_max_operations() == 0
    for _ in range(3):
        assert limits.affordable(holes, otherwise=None, budget=100) is None
        assert limits.affordable(holes, otherwise=None) is not None
        assert CONTEXT.get_max_operations() == 0


@pytest.mark.parametrize("answered", [False, True])
def test_a_step_keeps_its_budget_beside_optional_questions(answered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are answered or given up; and what is needed still ends at the step's own budget."""
    whole = cost(holes)
    monkeypatch.setattr(limits, "BUDGET", int(2.5 * whole))
    with limits.bounded("asking"):
        for _ in range(10):
            found = limits.affordable(holes, otherwise=None, budget=limits.OPTIONAL if answered else whole // 2)
            assert (found is not None) == answered
        holes()
        holes()
        assert CONTEXT.get_max_operations() > 10 * (whole // 2)
        with pytest.raises(isl.Error, match="maximal number"):
            holes()
        assert limits.affordable(holes, otherwise=None) is None, "nothing is left to ask with"
        limits.affordable(lambda: None, otherwise=None)
        with pytest.raises(isl.Error, match="maximal number"):
            holes()
    assert CONTEXT.get_max_operations() == 0


def test_all_optional_questions_of_a_step_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cost(holes)
    monkeypatch.setattr(limits, "ALL_OPTIONAL", int(3.5 * whole))
    for _ in range(2):                      # each step has its own
        with limits.bounded("asking"):
            found = [limits.affordable(holes, otherwise=None) is not None for _ in range(6)]
        assert found == [True] * 3 + [False] * 3


def test_an_optional_question_within_another_has_what_that_one_has() -> None:
    def inner() -> bool:
        return limits.affordable(holes, otherwise=None) is not None

    with limits.bounded("asking"):
        assert limits.affordable(inner, otherwise=None) is True
        assert limits.affordable(inner, otherwise=None, budget=100) is False
