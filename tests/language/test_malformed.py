"""Malformed kernels: each is refused with its error class, and the fields that say where and what."""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import (
    LoopkitError,
    NameConflictError,
    ParseError,
    PreconditionError,
    StorageError,
    UnknownNameError,
)
from loopkit.kernel.data import GlobalArg, TemporaryVariable, ValueArg
from loopkit.language.make import make_kernel

BOX = "{[i,j]: 0<=i<n and 0<=j<m}"
NESTED = ["{[i]: 0<=i<n}", "{[k]: 0<=k<i}"]


def at(line: int, column: int, expected: str) -> tuple[type[LoopkitError], dict[str, object]]:
    return ParseError, {"line": line, "column": column, "expected": expected}


def no(kind: str, name: str, *close: str) -> tuple[type[LoopkitError], dict[str, object]]:
    return UnknownNameError, {"kind": kind, "name": name, "close": close}


def bad(error: type[LoopkitError], subject: str) -> tuple[type[LoopkitError], dict[str, object]]:
    return error, {"subject": subject}


# Instructions

INSTRUCTIONS: Mapping[str, tuple[str, tuple[type[LoopkitError], dict[str, object]]]] = {
    "open bracket": ("a[i] = b[i", at(1, 9, "']' after it")),
    "open brace": ("a[i] = 1 {id=x", at(1, 10, "'}' after it")),
    "stray bracket": ("a[i] = b[i]]", at(1, 12, "no closing bracket")),
    "no equals sign": ("a[i] b[i]", at(1, 6, "'='")),
    "comparison for assignment": ("a[i] == 3", at(1, 6, "'='")),
    "assigned twice": ("a[i] = b[i] = 3", at(1, 13, "an operator, '{' or the end of the line")),
    "nothing assigned": ("a[i] =", at(1, 7, "an expression")),
    "two values": ("x = 1\na[i] = 3 4", at(2, 10, "an operator, '{' or the end of the line")),
    "number assigned to": ("3 = a", at(1, 1, "a statement")),
    "unknown sign": ("a[i] = b[i] $ 3", at(1, 13, "an operator, '{' or the end of the line")),
    "a string": ("a[i] = 'x'", at(1, 8, "an expression")),
    "attribute": ("a[i] = np.pi", at(1, 10, "an operator")),
    "number with letters": ("a[i] = 3x", at(1, 8, "a number")),
    "subscript of a subscript": ("a[i] = b[i][j]", at(1, 12, "an operator")),
    "empty subscript": ("a[i] = b[]", at(1, 10, "a subscript")),
    "trailing comma": ("a[i] = b[i,]", at(1, 12, "an expression")),
    "tuple": ("a[i] = (b, )", at(1, 12, "an expression")),
    "not in a sum": ("a[i] = 1 + not b", at(1, 12, "an expression")),
    "two arguments of if": ("a[i] = if(b, c)", at(1, 8, "three arguments: if(condition, a, b)")),
    "no instructions": ("", at(1, 1, "a statement")),
    "comments only": ("# nothing\n", at(1, 1, "a statement")),
    "unknown function": ("a[i] = sqr(b[i])", no("function", "sqr", "sqrt", "rsqrt")),
    "too many arguments": ("a[i] = sqrt(1, 2)", at(1, 8, "one argument")),
    "unknown dtype": ("<floaty> t = 3", no("dtype", "floaty", "float", "float64")),
    "dtype as a string": ("a[i] = cast('float32', b)", at(1, 13, "a dtype, such as float32")),
    "open dtype": ("<float32 t = 3", at(1, 10, "'>'")),
    "temporary without a name": ("<> = 3", at(1, 4, "the name of a temporary")),
    "update of a new temporary": ("<> t += 3", at(1, 6, "'='")),
    "temporary of two dtypes": ("<float32> t = 1\n<float64> t = 2\na[i] = t", at(2, 1, "<float32>")),
    "open for": ("x = 1\nfor i\n  a[i] = 1", at(2, 1, "'end' after it")),
    "open if": ("if n > 3\n  x = 1\n", at(1, 1, "'end' after it")),
    "stray end": ("a[i] = 1\nend", at(2, 1, "a statement")),
    "stray else": ("else\na[i] = 1\nend", at(1, 1, "a statement")),
    "else in for": ("for i\n  a[i] = 1\nelse\n  a[i] = 2\nend", at(3, 1, "'end'")),
    "two elses": ("if n > 1\n x = 1\nelse\n x = 2\nelse\n x = 3\nend", at(5, 1, "'end'")),
    "empty for": ("for i\nend", at(2, 1, "a statement")),
    "empty if": ("if n > 3\nend", at(2, 1, "a statement")),
    "for without inames": ("for\n  x = 1\nend", at(1, 4, "an iname")),
    "for over no iname": ("for q\n  a[q] = 1\nend", no("iname", "q")),
    "for over one iname twice": ("for i\n  for i\n    a[i] = 1\n  end\nend", at(2, 7, "another iname")),
    "if without a condition": ("if\n  x = 1\nend", at(1, 3, "an expression")),
    "unknown option": ("a[i] = 1 {prio=3}", at(
        1, 11, "one of id, id_prefix, dep, dep_query, inames, dup, if, tags, nosync, nosync_query, priority, groups, "
               "conflicts, atomic, async")),
    "option twice": ("a[i] = 1 {id=x, id=y}", at(1, 17, "each option once")),
    "option without a value": ("a[i] = 1 {id=}", at(1, 14, "a statement id")),
    "condition without a value": ("a[i] = 1 {if=}", at(1, 14, "an expression")),
    "id twice": ("a[i] = 1 {id=x}\nb[i] = 1 {id=x}", at(2, 1, "another id")),
    "unknown dependence": ("a[i] = 1 {id=first}\nb[i] = 1 {dep=frist}", no("statement", "frist", "first")),
    "glob of nothing": ("a[i] = 1 {dep=z*}", no("statement", "z*")),
    "dependence on what follows": ("a[i] = 1 {dep=x}\nb[i] = 2 {id=x}", at(1, 15, "an earlier statement")),
    "dependence on itself": ("a[i] = 1 {id=x, dep=x}", at(1, 21, "an earlier statement")),
    "unknown nosync": ("a[i] = 1 {nosync=x}", no("statement", "x")),
    "unknown iname in inames=": ("a[i] = 1 {inames=q}", no("iname", "q")),
    "sum over no iname": ("a[i] = sum(q, b[q])", no("iname", "q")),
    "sum of one": ("a[i] = sum(b[i])", at(1, 12, "an iname and an expression: sum(k, expression)")),
    "min of one": ("a[i] = min(b[i])", at(1, 8, "two values, or an iname and an expression, for min")),
    "unknown reduction": ("a[i] = reduce(average, j, b[j])", no("reduction", "average")),
    "reduction iname twice": ("a[i] = sum([j, j], b[j])", at(1, 16, "an iname that is not in the list yet")),
    "reduction iname outside": ("a[i] = sum(i, b[i])", at(1, 3, "an iname other than 'i'")),
    "reduction iname after": ("a[i] = sum(j, b[j]) + j", at(1, 23, "an iname other than 'j'")),
    "reduction in itself": ("a[i] = sum(j, b[j]*sum(j, c[j]))", at(1, 24, "an iname other than 'j'")),
    "iname first in max": ("a[i] = max(i, 3)", at(1, 3, "an iname other than 'i'")),
    "reduction over the iname of a for": ("for j\n  a[j] = sum(j, b[j])\nend", at(2, 5, "an iname other than 'j'")),
    "domain of a reduction": ("a[i] = sum({[k]: 0<=k<q*q}, b[k])", at(1, 24, "a constant factor")),
    "declared iname outside": ("a[k] = sum({[k]: 0<=k<4}, b[k])", at(1, 3, "another name")),
    "declared iname known": ("a[i] = sum({[i]: 0<=i<4}, b[i])", at(1, 12, "a name other than 'i', or no domain here")),
    "iname written": ("i = 3", at(1, 1, "an array or a temporary")),
    "iname subscripted": ("a[i] = i[3]", at(1, 8, "an array")),
    "size written": ("n = 3", at(1, 1, "an array or a temporary")),
    "size subscripted": ("a[i] = n[i]", at(1, 8, "an array")),
    "ranks differ": ("a[i] = 1\na[i,j] = 2", at(2, 1, "'a' with one subscript")),
    "subscripted and not": ("a[i] = b + b[i]", at(1, 12, "'b' without subscripts")),
    "keyword of C": ("float[i] = 3", at(1, 1, "another name, such as 'float_'")),
    "word of CUDA": ("a[i] = threadIdx", at(1, 8, "another name, such as 'threadIdx_'")),
    "compiler's name": ("__x[i] = 3", at(1, 1, "another name, such as 'x_'")),
    "function's name": ("sqrt[i] = 3", at(1, 1, "another name, such as 'sqrt_'")),
    "rule written": ("f(x) := x\nf[i] = 3", at(2, 1, "an array or a temporary")),
    "rule without its arguments": ("f(x) := x\na[i] = f", at(2, 8, "one argument")),
    "rule with too many": ("f(x) := x\na[i] = f(1, 2)", at(2, 8, "one argument")),
    "rule that calls itself": ("f(x) := g(x)\ng(x) := f(x)\na[i] = f(1)", at(1, 1, "a rule that does not call itself")),
    "rule twice": ("f(x) := x\nf(y) := y\na[i] = f(1)", at(2, 1, "another name")),
    "rule's argument twice": ("f(x, x) := x\na[i] = f(1, 2)", at(1, 6, "another name")),
    "rule's argument subscripted": ("f(x) := x[i]\na[i] = f(1)", at(1, 9, "a value")),
    "rule's iname captured": ("f(x) := sum(j, b[j]*x)\na[i] = f(j)", at(2, 1, "an argument without 'j'")),
    "rule's argument as a bound": ("f(x) := sum({[k]: 0<=k<x}, b[k])\na[i] = f(3)",
                                   at(1, 1, "bounds in parameters and inames")),
    "rule with an equals sign": ("f(x) = 3", at(1, 2, "'='")),
    "rule for elements": ("a[i] := 3", at(1, 2, "':='")),
    "rule of a reserved name": ("float(x) := x\na[i] = b[i]", at(1, 1, "a name for the substitution rule")),
    "argument of a reserved name": ("f(int) := 3\na[i] = f(1)", at(1, 3, "the name of an argument")),
    "no pattern": ("a[i] = 1 {id=x}\nb[i] = 1 {dep=}", at(2, 15, "a name or a pattern")),
    "operator for a value": ("a[i] = 1 + *", at(1, 12, "an expression")),
    "keyword for a value": ("a[i] = for", at(1, 8, "an expression")),
    "dtype of two": ("a[i] = float32(1, 2)", at(1, 8, "one argument for float32")),
    "dtype's name": ("a[i] = float32", at(1, 8, "another name, such as 'float32_'")),
    "number of too many digits": (f"a[i] = {'1'*1001}", at(1, 8, "a number")),
    "integer of too many bits": (f"a[i] = {2**64}", at(1, 8, "a number")),
    "hexadecimal number without digits": ("a[i] = 0xg", at(1, 8, "a number")),
    "infinite number": ("a[i] = 1e999", at(1, 8, "a number")),
    "expressions in each other": (f"a[i] = {'('*200}1{')'*200}", at(1, 108, "a simpler expression")),
    "rule called like an iname": ("i(x) := x\nb[j] = i(3)", bad(NameConflictError, "i")),
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions(name: str) -> None:
    instructions, (error, fields) = INSTRUCTIONS[name]
    _refused(error, fields, BOX, instructions)


# Domains

DOMAINS: Mapping[str, tuple[str | list[str], tuple[type[LoopkitError], dict[str, object]]]] = {
    "no braces": ("0<=i<n", at(1, 1, "'{'")),
    "open": ("{[i]: 0<=i<n", at(1, 13, "'and', 'or', an operator or '}'")),
    "something after": ("{[i]: 0<=i<n} foo", at(1, 15, "the end of the domain")),
    "missing condition": ("{[i]: 0<=i<n and}", at(1, 17, "an affine form")),
    "open tuple": ("{[i: 0<=i<n}", at(1, 4, "',' or ']'")),
    "named tuple": ("{S[i]: 0<=i<n}", at(1, 2, "'['")),
    "a map": ("{[i] -> [j]: 0<=i<n}", at(1, 6, "':'")),
    "form for an iname": ("{[i+1]: 0<=i<n}", at(1, 3, "the name of an iname")),
    "iname twice": ("{[i,i]: 0<=i<n}", at(1, 5, "another name, such as 'i_'")),
    "iname in two domains": (["{[i]: 0<=i<n}", "{[j,i]: 0<=i,j<n}"], at(2, 5, "another name")),
    "union of different inames": ("{[i]: 0<=i<n; [j]: 0<=j<n}", at(1, 16, "[i]")),
    "two signs for equality": ("{[i]: 0<=i<n and i==3}", at(1, 19, "'='")),
    "product of names": ("{[i]: 0<=i<n*m}", at(1, 13, "a constant factor")),
    "quotient of names": ("{[i]: 0<=i<n/m}", at(1, 13, "a constant divisor")),
    "number with a point": ("{[i]: 0<=i<1.5}", at(1, 13, "'and', 'or', an operator or '}'")),
    "unknown function": ("{[i]: 0<=i<sqrt(n)}", at(1, 12, "one of ceil, ceild, floor, floord, max, min")),
    "read from an array": ("{[i]: 0<=i<rowptr[3]}", at(1, 12, "a name")),
    "no upper bound": ("{[j,i]: 0<=j<n and 0<=i}", at(1, 5, "a lower and an upper bound for 'i'")),
    "name of an axis in the code": ("{[i]: 0<=i<l0_}", at(1, 12, "another name, such as 'l0__'")),
    "reserved name": ("{[for]: 0<=for<n}", at(1, 3, "another name, such as 'for_'")),
    "domains in a circle": (["{[i]: 0<=i<j}", "{[j]: 0<=j<i}"], at(1, 1, "bounds in inames of other domains")),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_domains(name: str) -> None:
    domains, (error, fields) = DOMAINS[name]
    _refused(error, fields, domains, "a[i] = 1")


def test_a_block_needs_the_loops_of_its_bounds() -> None:
    error, fields = at(1, 5, "'i'")
    assert _refused(error, fields, NESTED, "for k\n  a[k] = 1\nend").hint == "for i, k"


def test_a_bound_is_an_integer_scalar() -> None:
    _refused(*bad(PreconditionError, "t"), ["{[i]: 0<=i<n}", "{[j]: 0<=j<t}"], "<float32> t = 1\na[j] = 1")
    _refused(*bad(PreconditionError, "t"), ["{[i]: 0<=i<n}", "{[j]: 0<=j<t}"], "<int32> t[i] = 1\na[j] = 1")
    _refused(*at(1, 1, "an array"), ["{[i]: 0<=i<n}", "{[j]: 0<=j<a}"], "a[j] = 1")


# Declarations

DECLARATIONS: Mapping[str, tuple[dict[str, Any], tuple[type[LoopkitError], dict[str, object]]]] = {
    "argument missing": ({"kernel_data": ["a"]}, no("argument", "b")),
    "argument unknown": ({"kernel_data": ["a", "q", "..."]}, no("argument", "q")),
    "argument twice": ({"kernel_data": ["a", "a"]}, bad(NameConflictError, "a")),
    "rest twice": ({"kernel_data": ["a", "...", "..."]}, bad(PreconditionError, "...")),
    "no argument at all": ({"kernel_data": [3]}, bad(PreconditionError, "3")),
    "name of C": ({"kernel_data": [GlobalArg("int"), "..."]}, bad(NameConflictError, "int")),
    "name of an iname": ({"kernel_data": [GlobalArg("i"), "..."]}, bad(NameConflictError, "i")),
    "unknown dtype": ({"kernel_data": [GlobalArg("a", dtype="foo"), "..."]}, bad(PreconditionError, "a")),       # type: ignore[arg-type]
    "dtype of objects": ({"kernel_data": [GlobalArg("a", dtype=np.dtype(object)), "..."]}, bad(PreconditionError, "a")),
    "axes": ({"kernel_data": [GlobalArg("a", shape="n, m"), "..."]}, at(1, 1, "one subscript for each axis")),  # type: ignore[arg-type]
    "shape": ({"kernel_data": [GlobalArg("a", shape="n+"), "..."]}, at(1, 9, "an expression")),                 # type: ignore[arg-type]
    "value written": ({"kernel_data": [ValueArg("a"), "..."]}, at(1, 1, "an array or a temporary")),
    "value subscripted": ({"kernel_data": [ValueArg("b"), "..."]}, at(1, 10, "an array")),
    "size of floats": ({"kernel_data": [ValueArg("n", np.dtype(np.float32)), "..."]}, bad(PreconditionError, "n")),
    "size as an array": ({"kernel_data": [GlobalArg("n"), "..."]}, bad(PreconditionError, "n")),
    "temporary never written": ({"kernel_data": [TemporaryVariable("b"), "..."]}, bad(StorageError, "b")),
    "kernel's name": ({"name": "for"}, bad(NameConflictError, "for")),
    "assumptions": ({"assumptions": "n >="}, at(1, 5, "an affine form")),
    "assumptions with two signs": ({"assumptions": "n == 3"}, at(1, 3, "'='")),
    "assumptions on no parameter": ({"assumptions": "q >= 1"}, no("parameter", "q")),
    "assumptions that contradict": ({"assumptions": "n >= 1 and n <= 0"}, bad(PreconditionError, "n >= 1 and n <= 0")),
}


@pytest.mark.parametrize("name", DECLARATIONS)
def test_declarations(name: str) -> None:
    arguments, (error, fields) = DECLARATIONS[name]
    _refused(error, fields, BOX, "a[i] = 2*b[i]", **arguments)


def test_a_temporary_is_no_argument() -> None:
    _refused(*at(1, 1, "a new name"), BOX, "<> t = 1\na[i] = t", kernel_data=[GlobalArg("t"), "..."])


def _refused(error: type[LoopkitError], fields: dict[str, object], domains: str | list[str], instructions: str,
             **arguments: Any) -> LoopkitError:
    with pytest.raises(LoopkitError) as caught:
        make_kernel(domains, instructions, **arguments)
    assert type(caught.value) is error, caught.value
    assert {name: getattr(caught.value, name) for name in fields} == fields
    assert caught.value.message.endswith(".")
    assert "%s" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", ["l0_", "g2_", "g__1", "_loop3"])
def test_names_that_the_generated_code_uses_are_nobody_s(name: str) -> None:
    """A size of such a name was hidden by a loop of the host's code."""
    plain = lk.make_kernel("{[i]: 0<=i<n}", "<> t = x[i]\ny[i] = t")
    for call in (lambda: lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = x[i] + {name}"),
                 lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", [lk.GlobalArg(name), "..."]),
                 lambda: lk.make_kernel("{[i]: 0<=i<n}", f"<> {name} = x[i]\ny[i] = {name}"),
                 lambda: lk.make_kernel("{[i]: 0<=i<n}", "y[i] = x[i]", name=name),
                 lambda: lk.rename_argument(plain, "x", name), lambda: lk.rename_iname(plain, "i", name),
                 lambda: lk.split_iname(plain, "i", 4, inner_iname=name),
                 lambda: lk.add_prefetch(plain, "x", [], temporary_name=name)):
        with pytest.raises(lk.LoopkitError, match="generated code"):
            call()


@pytest.mark.parametrize(("text", "hint"), [
    ("y[i] = x[i] ? 1 : 2", "if(condition, a, b)"),
    ("y[i] = if(i > 3 && i < 5, 1, 2)", "and, or, not"),
    ("y[i] = 1; z[i] = 2", "line of its own"), ("for i in n\ny[i] = 1\nend", "for i")])
def test_what_other_languages_have(text: str, hint: str) -> None:
    with pytest.raises(lk.ParseError) as refusal:
        lk.make_kernel("{[i]: 0<=i<n}", text)
    assert hint in str(refusal.value.hint)


#: A domain that somebody wrote, what the message says of it, and where.
WRONG_DOMAINS = {
    "{[i] 0<=i<n}": ("The ':' after [i] is missing.", 6),
    "{[i, j] 0<=i,j<n}": ("The ':' after [i, j] is missing.", 9),
    "[n] -> {[i] 0<=i<n}": ("The ':' after [i] is missing.", 13),
    "{[i]: 0<=i<4; [i] 6<=i<n}": ("The ':' after [i] is missing.", 19),
    "{[i]:: 0<=i<n}": ("There are two colons.", 6),
    "{[i]; 0<=i<n}": ("brackets, and their conditions after a colon", 7),
    "{i: 0<=i<n}": ("inames are in brackets", 2), "{(i): 0<=i<n}": ("inames are in brackets", 2),
    "{i, j: 0<=i,j<n}": ("inames are in brackets", 2), "{S[i]: 0<=i<n}": ("a domain has no name", 2),
    "0<=i<n": ("a domain is in braces", 1), "i: 0<=i<n": ("a domain is in braces", 1),
    "": ("a domain is in braces", 1), "[i]: 0<=i<n": ("inames in braces", 4),
    "[n] {[i]: 0<=i<n}": ("before an arrow", 5), "[i:0<=i<n]": ("The ']' after the names is missing.", 3),
    "{[i:0<=i<n]}": ("The ']' after the names is missing.", 4),
    "{[i: 0<=i<n}": ("The ']' after the names is missing.", 4),
    "{[i j]: 0<=i,j<n}": ("The ',' before 'j' is missing.", 5), "{[i]: 0<=i<n": ("The '}' that ends the domain", 13),
    "{[i]: 0<=i<n]": ("The '}' that ends the domain", 13), "{{[i]: 0<=i<n}}": ("cannot be read at '{'", 2),
    "{[i]: 0<=i<n}}": ("the end of the domain", 14), "{[i]: 0<=i<self.n}": ("The name 'self.n' has a dot.", 16),
    "{[i]: for i in range(n)}": ("0 <= i < n", 11), "{[i]: i in range(n)}": ("0 <= i < n", 9),
    "{[i]: 0<=i<n**2}": ("takes no powers", 13), "{[i]: 0=<i<n}": ("<=", 9), "{[i]: 0<=i=>n}": (">=", 12),
    "{[i,j]: 0<=i<n, 0<=j<m}": ("a comma in", 15),
    "{[i]: not i}": ("expected '<'", 12), "{[i]: not (0<=i<n) or not for i}": ("0 <= i < n", 31),
    "{[i]: 0<=i<n and (i<3 or i>7}": ("'and', 'or' or ')'", 29), "{[i]: 0<=i<(n+3*2}": ("an operator or ')'", 18),
    "{[i]: exists (e=floor(i/2) e<3) and 0<=i<n}": ("',' or ':'", 28), "{[i]: exists (3: i=3)}": ("a name or ':'", 15),
    "{[i]: exists (e: i=2*e and 0<=i<n}": ("'and', 'or' or ')'", 34), "{[i]: 0<=i<floord(n 2)}": ("',' or ')'", 21),
    "{[i]: 0<=i<n;[i]: i=min(2,*3)}": ("an affine form", 27), "{[i]: 0<=i<n and true + 3}": ("'and', 'or'", 23),
    "{[i]: 0<=i<2*(n+1)/m}": ("divides by a name", 19), "{[i]: 0 <= i < -}": ("an affine form", 17)}


@pytest.mark.parametrize("text", WRONG_DOMAINS)
def test_domains_that_lack_something(text: str) -> None:
    """The message says what is missing, at its place; a reduction's own domain is read in the same way."""
    message, column = WRONG_DOMAINS[text]
    with pytest.raises(lk.ParseError) as refusal:
        lk.make_kernel(text, "y[0] = 1")
    assert message in str(refusal.value)
    assert (refusal.value.line, refusal.value.column) == (1, column)
    with pytest.raises(lk.LoopkitError):
        lk.make_kernel("{[k]: 0<=k<8}", f"y[k] = sum({text}, x[i])")


@pytest.mark.parametrize("text", ["{[i]: 0<=i<n}", "{ [i] : 0 <= i and i < n ; [i] : i = n + 3 }", "{[i,j]: 0<=i,j<n}",
                                  "{[i]: 0<=i<n && i != 2}", "{[i]: 0<=i<n and not i = 2}", "{[i,j]: 0<=i,j<n,m}",
                                  "[n] -> {[i]: exists (e: i = 2*e) and 0<=i<n}", "{[i] : (0<=i<n)}", "{[i]: i = 3}"])
def test_domains_that_lack_nothing(text: str) -> None:
    assert lk.make_kernel(text, "y[i] = 1").inames[0] == "i"


@pytest.mark.parametrize(("assumptions", "message"), [
    ("n*n > 3", "An assumption multiplies two names"), ("n**2 > 3", "An assumption takes no powers"),
    ("5 / n > 3", "An assumption divides by a name"), ("a[0] > 3", "An assumption reads the array 'a'"),
    ("f(n) > 3", "An assumption cannot call 'f'")])
def test_assumptions_are_no_domains(assumptions: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        make_kernel("{[i]: 0<=i<n}", "y[i] = 1", assumptions=assumptions)


@pytest.mark.parametrize("text", [
    "{[i]: 0 <= i < n and i mod 3 = 1 implies i > 2",
    "{[i,j]: 0<=i,j<n,m and not (i = j) and (i < 3 or j >= floord(n, 2))",
    "{[i]: exists (e0 = floor((i)/2): 2e0 = i and 0 <= i < n)",
    "{[e]: exists f, g: e = 2f + 3*g and 0 <= e < n && e != 3",
    "{[i]: max(0, -n) <= i < min(n, ceil(m/2), floor((n+1)/3)) and (exists (e: i = 2*e) or true)"])
def test_a_domain_that_ends_early(text: str) -> None:
    """The fault of the beginning of a domain is at its end, wherever that is: all before it could be right."""
    condition = text.index(":") + 1
    for token in re.finditer(r"\w+|[<>!]?=|&&|\S", text[condition:]):
        begun = text[:condition + token.end()]
        with pytest.raises(ParseError) as refusal:
            make_kernel(begun, "y[0] = 1")
        assert refusal.value.column == len(begun) + 1, begun
