"""Match expressions select statements: the texts that *within* arguments take.

A pattern selects statements by a name. The name may have the wildcards ``*``, ``?`` and ``[...]``::

    load_x          the statement with the id load_x; "id:load_x" is the same
    writes:a        statements that write the array or temporary a
    reads:b         statements that read the array or temporary b
    iname:i         statements in a loop over i
    tag:mytag       statements with the option {tags=mytag}, or with a user tag of a class of this name
    in_kernel:f     all statements, if the kernel is called f
    call:f          statements of the function f, in all of its calls

``not`` binds more tightly than ``and``, and ``and`` more tightly than ``or``. A comma is the same as ``or``. So
``writes:a and not init_*`` selects the statements that write ``a``, except those whose ids begin with ``init_``.
Parentheses group.

The grammar: ``[ x ]`` is an optional ``x``, ``{ x }`` is any number of ``x``, ``x | y`` is ``x`` or ``y``, and a quoted
text is itself::

    expression  = conjunction { ( "," | "or" ) conjunction }
    conjunction = negation { "and" negation }
    negation    = "not" negation | "(" expression ")" | pattern
    pattern     = [ "id:" | "writes:" | "reads:" | "iname:" | "tag:" | "in_kernel:" | "call:" ] name
"""
from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from pytools.tag import Tag

from loopkit.analysis.accesses import accesses_of
from loopkit.errors import ParseError, PreconditionError, UnknownNameError
from loopkit.expr.tokens import Cursor, Source, Token
from loopkit.kernel.annotations import checked
from loopkit.kernel.instruction import Assignment
from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.statement import Statement, owner
from loopkit.kernel.tags import is_tag, tag_name
from loopkit.poly.limits import bounded

Ids = frozenset[str]

#: A selection of statements: a match expression, a user tag or a class of them, or several of which any may select.
Within = str | Tag | type | Collection[str | Tag | type] | None

_TOKEN = re.compile(r"\s*([(),]|[^\s(),]+|\Z)")
#: The texts of tokens other than names; the last token is empty.
_RESERVED = frozenset({"and", "or", "not", "(", ")", ",", ""})
_PATTERN = "a pattern: an id, id:, writes:, reads:, iname:, tag:, in_kernel: or call: with a name"
#: Python's stack bounds how deep parentheses may nest; this stays far below.
_MOST_DEPTH = 100


def matching_names(names: str | Iterable[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """The *names*, ``"i, j"`` or an iterable, as a tuple. The *known* names that match a pattern take its place.

    A pattern without a match stays as it is. A pattern does not repeat a name.

    >>> matching_names("k, j_*", ["j_outer", "k", "j_inner"])
    ('k', 'j_outer', 'j_inner')
    """
    found: list[str] = []
    for name in [x.strip() for x in names.split(",") if x.strip()] if isinstance(names, str) else names:
        is_pattern = bool(known) and not {"*", "?", "["}.isdisjoint(name)
        matches = [x for x in known if fnmatchcase(x, name)] if is_pattern else []
        found += [x for x in matches if x not in found] if matches else [name]
    return tuple(found)


def matching(kernel: LoopKernel, within: str | Tag | type | Collection[str | Tag | type]) -> Ids:
    """The ids of the statements that *within* selects.

    It is a match expression, a tag, or a collection of these, which selects what any of them selects. A pattern that
    selects a statement also selects the parts of its reductions.

    :raises ParseError: an expression cannot be read.
    :raises UnknownNameError: a pattern matches no name of *kernel*.
    :raises PreconditionError: no statement is selected.
    """
    each = [within] if isinstance(within, str | Tag | type) else list(within)
    found = frozenset().union(*(_selected(kernel, one) if isinstance(one, str) else _tagged_with(kernel, one)
                                for one in each))
    if not found:
        shown = ", ".join(one if isinstance(one, str) else getattr(one, "__name__", repr(one)) for one in each)
        raise PreconditionError(f"within='{shown}' selects no statement of kernel '{kernel.name}'.", subject=shown,
                                hint="leave within= out to select all statements")
    return found


@checked
def find_instructions(kernel: LoopKernel, insn_match: Within) -> list[Assignment]:
    """The instructions of :attr:`LoopKernel.instructions` that *insn_match* selects; it is written as ``within=``.

    The list is empty if it selects none.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] {id=twice}\\nz[i] = y[i] {id=copy}")
    >>> [insn.id for insn in lk.find_instructions(knl, "reads:x")]
    ['twice']
    >>> lk.find_instructions(knl, "reads:z")
    []

    :raises ParseError: *insn_match* cannot be read.
    """
    try:
        with bounded(f"selecting statements of kernel '{kernel.name}'"):
            chosen = frozenset(kernel.statement_by_id) if insn_match is None else matching(kernel, insn_match)
    except (UnknownNameError, PreconditionError):
        chosen = Ids()
    return [insn for insn in kernel.instructions if insn.id in chosen]


def _selected(kernel: LoopKernel, text: str) -> Ids:
    tokens = [Token("other", word[1], word.start(1)) for word in _TOKEN.finditer(text)]
    parser = _Parser(Source(text, "within="), tokens, kernel=kernel)
    result = parser.expression()
    if parser.text:
        raise parser.refused("'and', 'or', ',' or the end")
    return result


@dataclass
class _Parser(Cursor):
    """Parses one match expression. Each method returns the statements of *kernel* that a part of it selects."""

    kernel: LoopKernel = field(kw_only=True)
    depth: int = 0

    def refused(self, expected: str) -> ParseError:
        message = f"within= cannot be read at '{self.text}'." if self.text else "within= ends too early."
        return self.error(expected, message=message)

    def expression(self) -> Ids:
        result = Ids()
        while True:
            result |= frozenset.intersection(*self.separated(self.negation, "and"))
            if not self.accept(",", "or"):
                return result

    def negation(self) -> Ids:
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise self.refused(f"at most {_MOST_DEPTH} levels of 'not' and parentheses")
        if self.accept("not"):
            result = frozenset(self.kernel.statement_by_id) - self.negation()
        elif self.accept("("):
            result = self.expression()
            if not self.accept(")"):
                raise self.refused("')', 'and', 'or' or ','")
        else:
            result = self.pattern()
        self.depth -= 1
        return result

    def pattern(self) -> Ids:
        word, at = self.text, self.at
        kind, glob = word.split(":", 1) if ":" in word else ("id", word)
        if word in _RESERVED or kind not in _KINDS:
            raise self.refused(_PATTERN)
        self.at += 1
        if not glob:                                           # a space after the colon
            glob = self.text
            if glob in _RESERVED:
                self.at = at
                raise self.refused(f"a name after '{kind}:'")
            self.at += 1
        return _matched(self.kernel, kind, glob)


def _tagged_with(kernel: LoopKernel, wanted: Tag | type) -> Ids:
    """The statements with the tag *wanted*, or with a tag of this class."""
    return frozenset(s.id for s in kernel.statements if any(is_tag(tag, wanted) for tag in s.options.tags))


def _matched(kernel: LoopKernel, kind: str, glob: str) -> Ids:
    noun, names, known = _KINDS[kind]
    if not any(fnmatchcase(x, glob) for x in known(kernel)):
        raise UnknownNameError(noun, glob, known(kernel))
    found = frozenset(s.id for s in kernel.statements if any(fnmatchcase(x, glob) for x in names(kernel, s)))
    return found if kind == "id" else frozenset(s for s in kernel.statement_by_id if owner(s) in set(map(owner, found)))


#: For each kind of pattern its noun in messages, the names of a statement, and all names of a kernel.
_KINDS: Mapping[str, tuple[str, Callable[[LoopKernel, Statement], Collection[str]],
                           Callable[[LoopKernel], Collection[str]]]] = {
    "id": ("statement", lambda _, s: (s.id, owner(s.id)), lambda kernel: kernel.statement_by_id),
    "writes": ("array or temporary", lambda _, s: (s.written,), lambda kernel: kernel.data),
    "reads": ("array or temporary", lambda kernel, s: {a.array for a in accesses_of(kernel, s) if not a.is_write},
              lambda kernel: kernel.data),
    "in_kernel": ("kernel", lambda kernel, _: (kernel.name,), lambda kernel: (kernel.name,)),
    "iname": ("iname", lambda _, s: s.inames, lambda kernel: kernel.inames),
    "tag": ("statement tag", lambda _, s: [*map(tag_name, s.options.tags)],
            lambda kernel: {tag_name(tag) for s in kernel.statements for tag in s.options.tags}),
    "call": ("function", lambda kernel, s: {kernel.calls[call].function for call in s.options.calls},
             lambda kernel: {region.function for region in kernel.calls.values()})}
