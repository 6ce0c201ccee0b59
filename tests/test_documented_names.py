"""The names in the documentation: each exists, each public one has one place, and what is called missing is missing."""
from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import loopkit as lk
from loopkit.expr.kinds import DTYPE_NAMES
from loopkit.expr.nodes import REDUCTIONS
from loopkit.instructions.products import Product
from loopkit.instructions.table import NEST_INSTRUCTIONS
from loopkit.kernel.data import CachePolicy
from loopkit.kernel.loopy_names import LOOPY_ARGUMENTS, LOOPY_NAMES
from loopkit.kernel.tags import TAGS
from loopkit.target.cuda.limits import DEVICE_LIMITS
from loopkit.verification.checks import CHECKS

ROOT = Path(__file__).parents[1]
PAGES = {path.relative_to(ROOT / "docs").with_suffix("").as_posix(): path.read_text(encoding="utf-8")
         for path in sorted((ROOT / "docs").rglob("*.rst"))}
README = (ROOT / "README.md").read_text(encoding="utf-8")
FUNCTIONS = {name for name in lk.__all__ if inspect.isfunction(getattr(lk, name))}
LIBRARY = {name for name, value in vars(lk.library).items() if inspect.isfunction(value)}


def section(page: str, title: str) -> str:
    """The text from *title* to the next section of its level or a higher one."""
    found = re.search(rf"^{re.escape(title)}\n([-~])\1+\n(.*?)(?=^[^\n]+\n(?:---+|\1\1\1+)\n|\Z)", PAGES[page],
                      re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {title!r}"
    return found[2]


def words(text: str) -> list[str]:
    """The names in ``double backquotes``, each once."""
    return list(dict.fromkeys(re.findall(r"``(\w+)``", text)))


def rows(table: str) -> list[tuple[str, str]]:
    """The two columns of the simple table or of the list-table in *table*."""
    if ".. list-table" in table:
        cells = re.findall(r"^   \* - (.*)\n     - (.*)$", table, re.MULTILINE)
        return [(left, right) for left, right in cells[1:]]
    (rule, body), *_ = re.findall(r"^(=+)  =+\n(.*?)^=", table, re.MULTILINE | re.DOTALL)
    width, found = len(rule) + 2, []
    for line in body.splitlines():
        left, right = line[:width].strip(), line[width:].strip()
        if left:
            found.append((left, right))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]} {right}")
    return found


def codes(table: str) -> list[str]:
    """The code in the first column of *table*."""
    return [code for left, _ in rows(table) for code in re.findall(r"``(.+?)``", left)]


# API pages

def test_every_public_name_has_one_place() -> None:
    places = Counter(name for text in PAGES.values()
                     for name in re.findall(r"^\s*\.\. auto\w+:: loopkit\.(\S+)", text, re.MULTILINE))
    modules = {name for name in lk.__all__ if isinstance(getattr(lk, name), ModuleType)}
    public = {*lk.__all__, *(f"library.{name}" for name in LIBRARY)} - modules
    assert {"split_iname", "ParseError", "library.matmul"} <= public
    assert {name: places[name] for name in public if places[name] != 1} == {}


@pytest.mark.parametrize("page", PAGES)
def test_names_in_text_and_links_exist(page: str) -> None:
    named = re.findall(r"\blk\.([A-Za-z][\w.]*)", PAGES[page]) + [
        name.removeprefix("loopkit.") for name in re.findall(r":(?:func|class|meth|attr):`[^`]*?~?(loopkit\.[\w.]+)>?`",
                                                             PAGES[page])]
    stands_for_any = {"name", "red_black"}         # any name, and a user's own transformation
    assert not [name for name in named if name not in stands_for_any and not exists(name.rstrip("."))]


def exists(name: str) -> bool:
    value: Any = lk
    for part in name.split("."):
        fields = getattr(value, "__dataclass_fields__", {})
        if part not in fields and not hasattr(value, part):
            return False
        value = getattr(value, part, None)
    return True


# Tables of the language and of targets

def test_iname_tags() -> None:
    assert codes(section("semantics", "Mapping to a GPU")) == list(TAGS)
    knl = lk.make_kernel("{[i]: 0<=i<4}", "y[i] = 1")
    for tag in set(TAGS) - {"instr"}:
        assert lk.tag_inames(knl, {"i": tag}).tags["i"] == TAGS[tag]


def test_reductions() -> None:
    assert words(section("language", "Reductions").partition(" run over")[0]) == list(REDUCTIONS)


def test_options_of_statements() -> None:
    with pytest.raises(lk.ParseError) as caught:
        lk.make_kernel("{[i]: 0<=i<4}", "y[i] = 1 {option=1}")
    names = [code.partition("=")[0] for code in codes(section("language", "Options"))]
    assert set(names) == set(caught.value.expected.removeprefix("one of ").split(", "))


def test_dtypes() -> None:
    text = section("language", "Numbers, casts and dtypes").partition("The dtypes are")[2]
    own, other = text.partition(". ")[0], text.partition("Other spellings are")[2].partition(".\n")[0]
    assert {*ranges(own)} == {*DTYPE_NAMES.values()}
    assert {*words(other)} == {*DTYPE_NAMES} - {*DTYPE_NAMES.values()}


def ranges(text: str) -> list[str]:
    """The names in *text*, and those from ``int8`` to ``int64``."""
    found = words(text)
    for kind, first, last in re.findall(r"``([a-z]+)(\d+)`` to ``[a-z]+(\d+)``", text):
        bits = int(first)
        while (bits := 2*bits) < int(last):
            found.append(f"{kind}{bits}")
    return found


def test_checks() -> None:
    assert codes(PAGES["verification"]) == list(CHECKS)


def test_matrix_instructions() -> None:
    found = dict[str, tuple[str, ...]]()
    rows = section("transformations", "Matrix instructions")
    for row in re.findall(r"^``(?:wgmma|mma|ldmatrix|stmatrix|tma)\..*$", rows, re.MULTILINE):
        name, *others = re.findall(r"``([\w.]+)``", row)
        kind, _, *types = name.split(".")
        numbers = tuple(re.split(r"  +", row)[1:3])
        found |= {name: numbers, **{".".join([kind, x, *types]): numbers for x in others if x.startswith("m")},
                  **{f"{kind}.{x}": numbers for x in others if x.startswith("x")}}
    products = {x: i for x, i in NEST_INSTRUCTIONS.items() if isinstance(i, Product)}
    widest = {x for x in products if not x.startswith("wgmma") or "n256" in x}
    assert {*found} == {*NEST_INSTRUCTIONS} - (products.keys() - widest)
    assert {x: found[x] for x in widest} == {x: (products[x].factor.dtype, products[x].sum.dtype) for x in widest}


def test_cache_policies() -> None:
    (entry,) = re.findall(r"^   cache policy\n((?:      .*\n)+)", PAGES["glossary"], re.MULTILINE)
    assert {name for name in words(entry) if name in {policy.value for policy in CachePolicy}} == {
        policy.value for policy in CachePolicy}


def test_environment_variables() -> None:
    used = {name for path in Path(lk.__file__).parent.rglob("*.py")
            for name in re.findall(r'"(LOOPKIT_\w+)"', path.read_text(encoding="utf-8"))}
    assert "LOOPKIT_CACHE_DIR" in used
    assert not [name for name in used if not any(f"``{name}``" in text for text in PAGES.values())]


# loopy

def test_each_function_is_beside_the_one_of_loopy() -> None:
    same = words(section("loopy", "The same names"))
    other = set(re.findall(r"\blk\.(\w+)", section("loopy", "Other names"))) - set(same)
    new = words(" ".join(right for _, right in rows(section("loopy", "Features that loopy does not have"))))
    others = {"library", "ReductionOperation", "ScalarFunction", "CInstruction", "Synchronization"}
    assert Counter([*same, *other, *(set(new) - other)]) == Counter([*FUNCTIONS, *others])


def test_names_that_loopy_has_and_loopkit_has_not() -> None:
    absent = [name for left, _ in rows(section("loopy", "Features of loopy that are missing")) for name in words(left)]
    renamed = [name for left, _ in rows(section("loopy", "Other names")) for name in words(left)]
    assert {"parse_fortran", "linearize", "auto_test_vs_ref"} <= {*absent, *renamed}
    assert not [name for name in (*absent, *renamed) if hasattr(lk, name)]
    assert {*absent, *renamed} <= {*LOOPY_NAMES}


@pytest.mark.parametrize("name", LOOPY_NAMES)
def test_a_name_of_loopy_leads_to_one_of_loopkit(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}', a name of loopy. (Use|Leave it out:) "):
        getattr(lk, name)
    assert all(hasattr(lk, own) for own in re.findall(r"\blk\.(\w+)", LOOPY_NAMES[name]))


def test_arguments_that_loopy_has_and_loopkit_has_not() -> None:
    for call, _ in rows(section("loopy", "Arguments that are missing")):
        function = getattr(lk, call.strip("`").partition("(")[0], None)
        own = set(inspect.signature(function).parameters) if function is not None else set()
        assert not own & set(re.findall(r"(\w+)=", call))


@pytest.mark.parametrize("function", LOOPY_ARGUMENTS)
def test_an_argument_of_loopy_leads_to_one_of_loopkit(function: str) -> None:
    documented = " ".join(call for call, _ in rows(section("loopy", "Arguments that are missing")))
    for name, advice in LOOPY_ARGUMENTS[function].items():
        assert f"{name}=" in documented
        assert all(hasattr(lk, own) for own in re.findall(r"\blk\.(\w+)", advice))
        message = rf"{function}\(\) does not have the argument '{name}' of loopy. (Use|Leave it out:) "
        with pytest.raises(TypeError, match=message):
            getattr(lk, function)(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2") if function != "make_kernel" else "{:}",
                                  "i", **{name: 1})


def test_tags_of_array_axes() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i,j<4}", "<> t[i,j] = 1\n y[i,j] = t[i,j]")
    (item,) = re.findall(r"^- \*Array axes\.\*(.*?)^\n", PAGES["loopy"], re.MULTILINE | re.DOTALL)
    listed = re.findall(r'``"(.*?)"``', item)
    assert listed == ["C", "F", "N0,N1"]
    for tags in listed:
        lk.tag_array_axes(knl, "t", tags)
    for tags in ("sep,C", "vec,vec", "stride:4,stride:1"):
        with pytest.raises(lk.PreconditionError):
            lk.tag_array_axes(knl, "t", tags)
    assert "``sep`` and ``stride:``" in " ".join(item.split())
    for tags in ("F", "sep,C", "stride:4,stride:1"):
        lk.tag_array_axes(knl, "y", tags)


# The glossary

#: What the project calls things.
TERMS = (
    "access relation", "anti dependence", "assumed dependence", "asynchronous copy", "cache policy", "call signature",
    "clobbered value", "commit group", "contraction", "copy-in", "copy-out", "cross-block dependence",
    "decoupled look-back", "dependence", "domain", "expansion", "flow dependence", "fragment", "fragment layout",
    "full tile", "full-tile condition", "guard folding", "index type", "index widening", "input", "inter-block flag",
    "lane", "launch plan", "ldmatrix", "matrix multiply-accumulate", "may-write", "mbarrier", "mma", "must-write",
    "nest", "obligation", "output", "output dependence", "padding the iteration domain", "partial tile", "phase",
    "staging buffer", "statement instance set", "storage allocation", "thread distribution", "ticketed block order",
    "TMA load", "translation validation", "value range", "value-based flow", "wait group", "warp shuffle", "warpgroup")
ENTRIES = [(terms.split("\n"), " ".join(meaning.split())) for terms, meaning in re.findall(
    r"^   ((?:\w.*\n   )*\w.*)\n((?:      .*\n)+)", PAGES["glossary"], re.MULTILINE)]


def test_the_glossary_has_each_term() -> None:
    terms = [term.strip() for names, _ in ENTRIES for term in names]
    assert len(terms) == len(set(terms))
    assert set(TERMS) <= set(terms)


@pytest.mark.parametrize(("terms", "entry"), ENTRIES, ids=[terms[0] for terms, _ in ENTRIES])
def test_a_glossary_entry_is_a_sentence_and_its_place(terms: list[str], entry: str) -> None:
    found = re.fullmatch(r"([A-Z].*\.) ``([\w/.]+)``\.", entry)
    assert found, "no meaning, and then a file"
    assert not re.search(r"[.!?] ", re.sub(r"``.+?``", "X", found[1])), "more than one sentence"
    source = (ROOT / found[2]).read_text(encoding="utf-8").lower()
    assert any(all(word[:6] in source for word in re.split(r"[ -]", term.lower())) for term in terms)


# README

def test_the_features_in_the_readme() -> None:
    features = README.partition("## Features")[2].partition("## Missing")[0]
    assert {name for name in re.findall(r"`(\w+)`", features) if hasattr(lk, name)} >= {"add_prefetch", "privatize"}
    assert not [name for name in re.findall(r"`lk\.([\w.]+)", README) if not exists(name)]
    (tags,) = re.findall(r"^- Tags: (.*)\.$", features, re.MULTILINE)
    listed = re.findall(r"`(.*?)`", tags)
    assert {re.sub(r"^([gl])\.\d", r"\1.N", tag) for tag in TAGS} == set(listed)
    first, *_, last = (name for name in DEVICE_LIMITS if name[-1].isdigit())
    assert f"limits of {first} to {last}." in features


def test_what_the_readme_calls_missing_is_missing() -> None:
    missing = re.findall(r"^- (.*)\.$", README.partition("## Missing features")[2].partition("## ")[0], re.MULTILINE)
    assert missing == ["Automatic tuning"]
    assert not [name for name in dir(lk) if "tun" in name]
