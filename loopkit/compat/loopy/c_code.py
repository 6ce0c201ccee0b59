"""C instructions and calls without results: their statements in loopkit's language."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import loopkit as lk
from loopkit.compat.loopy.kernel.function_interface import SideEffect
from loopkit.compat.loopy.kernel.instruction import CInstruction, text_of
from loopkit.compat.loopy.spelling import logical_lines, options_of
from loopkit.compat.loopy.symbolic import parse
from loopkit.errors import UndecidedError, UnknownNameError
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.mappers import variables
from loopkit.expr.parsing import parse_expression
from loopkit.kernel.c_instruction import EFFECTS, top_level, without_literals
from loopkit.language.c_instructions import WrittenOut
from loopkit.language.names import fresh


@dataclass
class CStatements:
    """Writes out the C instructions of a kernel, and its calls of functions without results.

    :ivar shapes: those of declared arrays and temporaries; ``None``: not declared.
    :ivar preamble: definitions for all C code of the kernel.
    :ivar kernels: the functions whose calls stay as they are.
    :ivar own: the domains and functions of the statements.
    :ivar groups: the statements of each C instruction, by its id.
    """

    inames: Collection[str]
    shapes: Mapping[str, Sequence[Any] | None]
    preamble: str
    effects: Mapping[str, SideEffect]
    kernels: Collection[str]
    own: WrittenOut
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _given: set[str] = field(default_factory=set)

    def lines(self, items: Iterable[str | CInstruction]) -> list[str]:
        """The lines of *items*; :raises UnknownNameError: a call has no result, and its function is not known."""
        items = list(items)
        self._given |= {x for item in items if isinstance(item, str) for x in _IDS.findall(item)}
        found = [line for item in self._without_breaks([*items]) for line in (
            self._text(item) if isinstance(item, str) else self._code(item))]
        if any(x.has_effects for x in self.own.instructions):
            found.insert(0, f"<int32> {EFFECTS} = 0 {{id={EFFECTS}, inames=}}")
        return found

    def require_declared(self, kernel: lk.LoopKernel) -> None:
        """:raises UndecidedError: the code of a C instruction names memory of *kernel* that it does not declare."""
        for given in self.own.instructions:
            try:
                given.require_undeclared({*kernel.argument_by_name, *kernel.temporaries, *kernel.inames})
            except UndecidedError as err:
                name = str(err).split("'")[3]
                raise UndecidedError(str(err).partition("\n")[0], err.reason, hint=(
                    f"name '{name}' in read_variables=, assignees= or iname_exprs=; for a name of the code itself, "
                    "CInstruction(..., assume='...') with the reason")) from None

    # The end of a loop

    def _without_breaks(self, items: Sequence[str | CInstruction]) -> Iterator[str | CInstruction]:
        """The *items*, with a flag for each instruction ``break;``, which is a condition of those that depend on it.

        :raises UndecidedError: it is in several loops, or another statement of its loop does not depend on it.
        """
        stops: dict[str, tuple[str, str]] = {}
        for item in filter(_is_break, items):
            assert isinstance(item, CInstruction)
            inames = sorted(self._inames_of(item))
            if len(inames) != 1:
                raise UndecidedError(f"It is unknown which loop the C instruction '{item.id}' ends.",
                                     f"the inames of its code are {', '.join(inames) or 'none'}",
                                     hint="name one iname in iname_exprs=")
            stops[str(item.id or "break")] = inames[0], f"{item.id or 'break'}_stopped"
        for item in items:
            if isinstance(item, str):
                yield "\n".join(self._stopped(line, stops) for line in logical_lines(item)) if stops else item
            elif _is_break(item):
                own = str(item.id or "break")
                iname, flag = stops[own]
                conditions = [f"if={text_of(x)}" for x in item.predicates]
                before = ":".join((f"{flag}_begin", *sorted(item.depends_on)))
                yield f"<int32> {flag} = 0 {{id={flag}_begin, inames=}}"
                yield f"{flag} = 1 {{{', '.join((f'id={own}', f'inames={iname}', *conditions, f'dep={before}'))}}}"
            else:
                for own, (iname, _) in stops.items():
                    if iname in self._inames_of(item):
                        raise _misplaced(own, iname, str(item.id))
                yield item

    def _inames_of(self, item: CInstruction) -> frozenset[str]:
        given = [*map(text_of, item.predicates),
                 *(x if isinstance(x, str) else text_of(x[1]) for x in item.iname_exprs)]
        return frozenset({*item.within_inames}.union(*map(variables, map(parse, given))) & {*self.inames})

    def _stopped(self, line: str, stops: Mapping[str, tuple[str, str]]) -> str:
        """*line*, under the conditions that the loops in which it is go on."""
        found = _LAST_OPTIONS.search(line)
        options = list(options_of(found["options"])) if found is not None else []
        after = {x for option in options if option.startswith("dep=") for x in option[4:].lstrip("*").split(":")}
        for own, (iname, flag) in stops.items():
            if (own in after) != bool(re.search(rf"\b{iname}\b", line)):
                raise _misplaced(own, iname, line.strip())
            if own in after:
                options.append(f"if={flag} == 0")
        return line if found is None else f"{line[:found.start()]}{{{', '.join(options)}}}"

    # Calls without results

    def _text(self, text: str) -> Iterator[str]:
        found = list(logical_lines(text))
        if not any(map(call_alone, found)):
            yield text
            return
        for line in found:
            call = call_alone(line)
            if call is None or call[0] in self.kernels:
                yield line
            elif call[0] in self.effects:
                yield from self._call(*call)
            else:
                raise UnknownNameError("function", call[0], sorted({*self.effects, *self.kernels}),
                                       hint="lp.register_callable or lp.merge adds it")

    def _call(self, name: str, arguments: str, options: str) -> Iterator[str]:
        given = list(options_of(options))
        own = next((x.partition("=")[2] for x in given if x.startswith("id=")), None)
        listed = next((x.partition("=")[2].lstrip("+") for x in given if x.startswith("inames=")), "")
        values = list(filter(None, top_level(arguments, ",")))
        used = frozenset().union(*map(variables, map(parse, values)))
        inames = sorted({*filter(None, listed.split(":"))} | used & {*self.inames})
        effect, call = self.effects[name], self._id(own or f"{name}_call")
        # an argument may have reductions, and an operand has none
        reads = {f"argument_{k}": f"{call}_value_{k}" for k in range(len(values))}
        code = lk.CInstruction(",".join(inames), f"{effect.text}({', '.join(f'${x}' for x in reads)});", reads, id=call,
                               preamble=self._preamble(effect.preamble))
        others = [x for x in given if not x.startswith(("id=", "inames="))]
        for text, value in zip(values, reads.values(), strict=True):
            own_options = [f"id={value}", f"inames={':'.join(inames)}", *others]
            yield f"<> {value} = {text} {{{', '.join(own_options)}}}"
        yield from self._lines(code, others, reads.values())

    # C instructions

    def _code(self, given: CInstruction) -> Iterator[str]:
        name = self._id(str(given.id) if given.id else fresh("insn", {*self._ids, *self._given}))
        words = {*re.findall(r"[A-Za-z_]\w*", without_literals(given.code))}
        if words & {"break", "continue"} and not words & {"for", "while", "do", "switch"}:
            raise UndecidedError(f"The C instruction '{name}' ends an iteration or the loop around it.",
                                 "the instances of later statements would depend on its code",
                                 hint="a condition on these statements: if=")
        pairs = [(x, x) if isinstance(x, str) else (str(x[0]), text_of(x[1])) for x in given.iname_exprs]
        reads = {text_of(x): self._operand(name, text_of(x)) for x in given.read_variables}
        reads = {x: e for x, e in reads.items() if x not in self.inames} | {x: e for x, e in pairs if x != e}
        writes = {text_of(x): self._operand(name, text_of(x)) for x in given.assignees}
        used = frozenset().union(*(variables(parse_expression(e)) for e in (
            *(e for _, e in pairs), *(x for x in writes if x.endswith("]")), *map(text_of, given.predicates))))
        code, operands = given.code, dict[str, dict[str, str]](reads={}, writes={})
        for kind, found in (("reads", reads), ("writes", writes)):
            for text, operand in found.items():
                array = text.partition("[")[0].strip()
                own = array if array not in operands["reads"] else f"{array}_written"
                operands[kind][own] = operand
                code = _with_placeholder(code, text, f"${own}")
        for x in (x for x, e in pairs if x == e):
            code = _with_placeholder(code, x, f"${x}")
        core = lk.CInstruction(
            ",".join(sorted((used & {*self.inames}) | {*given.within_inames})), code, operands["reads"],
            operands["writes"], id=name, preamble=self._preamble(), assume=given.assume)
        options = [f"dep={':'.join(sorted(given.depends_on))}"] if given.depends_on else []
        options += [f"if={':'.join(map(text_of, given.predicates))}"] if given.predicates else []
        options += [f"tags={':'.join(sorted(map(str, given.tags)))}"] if given.tags else []
        yield from self._lines(core, options)

    def _operand(self, owner: str, text: str) -> str:
        """*text*, or the region of all elements of the array that it names."""
        shape = self.shapes.get(text, ())
        if shape is None:
            raise UndecidedError(f"The C instruction '{owner}' accesses '{text}', whose shape is not declared.",
                                 f"the elements of '{text}' that the code accesses are unknown",
                                 hint=f"lp.GlobalArg('{text}', shape=...)")
        return f"{text}[{', '.join(f'0:{text_of(e)}' for e in shape)}]" if shape else text

    # Both

    def _with_domain(self, found: re.Match[str]) -> str:
        self.own.domains.append(found["domain"])
        return f"{found['operation']}([{found['inames']}], "

    def _id(self, wanted: str) -> str:
        return fresh(wanted, self._ids)

    def _preamble(self, own: str = "") -> str:
        return "\n".join(filter(None, (self.preamble, own)))

    def _lines(self, core: lk.CInstruction, options: Sequence[str], before: Iterable[str] = ()) -> Iterator[str]:
        lines = [_INLINE.sub(self._with_domain, line) for line in self.own.lines(core)]
        self.groups[core.id] = frozenset(f"{core.id}_{x}" for x in (*core.operands, *core.writes)).union(before)
        for line in lines:
            own = [*options]
            if line.startswith(f"<> {core.id}_effects_before ="):
                deps = [x.removeprefix("dep=") for x in own if x.startswith("dep=")]
                own = [f"dep={':'.join((EFFECTS, *deps))}", *(x for x in own if not x.startswith("dep="))]
            yield f"{line[:-1]}{''.join(f', {x}' for x in own)}}}"


#: The beginning of a reduction over a region with its own domain.
_INLINE = re.compile(r"(?P<operation>\w+_reads_\w+)\((?P<domain>\{\[(?P<inames>[^\]]*)\][^}]*\}), ")


def _with_placeholder(code: str, text: str, placeholder: str) -> str:
    """*code* with *placeholder* for the name or element *text*."""
    parts = [re.escape(x) for x in re.findall(r"\w+|\S", text)]
    word = r"(?<![\w$.])" + r"\s*".join(parts) + (r"(?!\w)" if text[-1] != "]" else "")
    literals = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
    return re.sub(f"{literals}|(?P<own>{word})", lambda x: x[0] if x["own"] is None else placeholder, code)


#: The ids that a text gives.
_IDS = re.compile(r"\bid\s*=\s*(\w+)", re.ASCII)
def _is_break(item: str | CInstruction) -> bool:
    return isinstance(item, CInstruction) and item.code.strip() == "break;"


def _misplaced(own: str, iname: str, other: str) -> UndecidedError:
    return UndecidedError(f"The C instruction '{own}' ends the loop over '{iname}', and it is unknown whether it ends "
                          f"that of '{other}'.", "the order of both in an iteration is open",
                          hint=f"dep={own} for each statement of the loop, and for no other one")


_LAST_OPTIONS = re.compile(r"\{(?P<options>[^{}]*)\}\s*(?:#.*)?$", re.DOTALL)
_CALL_ALONE = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*\(", re.ASCII)
_OPTIONS = re.compile(r"\s*(?:\{(?P<options>[^{}]*)\})?\s*(?:#.*)?", re.DOTALL)


def call_alone(line: str) -> tuple[str, str, str] | None:
    """The function, the arguments and the options if *line* is a call without results.

    >>> call_alone("f(x[i], 2) {id=f}"), call_alone("f(x) := 2*x")
    (('f', 'x[i], 2', 'id=f'), None)
    """
    start = _CALL_ALONE.match(line)
    if start is None:
        return None
    depth, end = 1, start.end()
    while end < len(line) and depth:
        depth += (line[end] in "([{") - (line[end] in ")]}")
        end += 1
    rest = _OPTIONS.fullmatch(line, end)
    if depth or rest is None or start["name"] in FUNCTIONS:
        return None
    return start["name"], line[start.end():end - 1].strip(), rest["options"] or ""
