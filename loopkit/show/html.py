"""Documents as HTML for notebooks and reviews: self-contained, without scripts, in light and in dark pages."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from loopkit.show.document import (
    Block,
    Code,
    Document,
    Fold,
    Line,
    Paragraph,
    Picture,
    Span,
    Style,
    Table,
    plain,
    spans,
)

#: Colours by name, for light and for dark pages: of Jupyter by its attribute, of others by the reader's preference.
_LIGHT = {"note": "#57606a", "good": "#116329", "warning": "#8a4600", "bad": "#b3161e", "name": "#0550ae",
          "line": "#d0d7de", "back": "#f6f8fa", "comment": "#57606a", "keyword": "#a01530", "number": "#0550ae",
          "string": "#0a3069"}
_DARK = {"note": "#9198a1", "good": "#56d364", "warning": "#e3a13a", "bad": "#ff7b72", "name": "#79c0ff",
         "line": "#3d444d", "back": "#161b22", "comment": "#9198a1", "keyword": "#ff7b72", "number": "#79c0ff",
         "string": "#a5d6ff"}


def _variables(colours: Mapping[str, str]) -> str:
    return "".join(f"--lk-{name}:{colour};" for name, colour in colours.items())


#: The rules of tables name enough classes to win over those of Jupyter, which centre and stripe tables.
STYLE = f"""
.loopkit{{{_variables(_LIGHT)}font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px;
line-height:1.45;max-width:100%}}
@media (prefers-color-scheme:dark){{.loopkit{{{_variables(_DARK)}}}}}
[data-jp-theme-light="true"] .loopkit,[data-theme="light"] .loopkit{{{_variables(_LIGHT)}}}
[data-jp-theme-light="false"] .loopkit,[data-theme="dark"] .loopkit{{{_variables(_DARK)}}}
.loopkit .box{{overflow-x:auto;max-width:100%}}
.loopkit .title{{font-weight:600;margin:.2em 0}}
.loopkit pre{{margin:.2em 0;padding:.4em .6em;background:var(--lk-back);white-space:pre;font:inherit;overflow-x:auto}}
.loopkit p{{margin:.1em 0;padding-left:4ch;text-indent:-4ch;overflow-wrap:anywhere;white-space:pre-wrap}}
.loopkit .box table{{border-collapse:collapse;margin:.2em 0;font:inherit;width:auto}}
.loopkit .box table tr{{background:none}}
.loopkit .box table :is(th,td){{text-align:left;padding:.1em 1.2em .1em 0;border-bottom:1px solid var(--lk-line);
white-space:nowrap;line-height:inherit;background:none}}
.loopkit .box table th{{color:var(--lk-note);font-weight:400}}
.loopkit details{{margin:.3em 0 .3em .2em}}
.loopkit summary{{cursor:pointer;font-weight:600}}
.loopkit details>div{{margin-left:1.2em}}
.loopkit .code{{margin:.2em 0;padding:.4em .6em .4em 1.6em;background:var(--lk-back);overflow-x:auto}}
.loopkit .code pre,.loopkit .code details{{margin:0;padding:0;overflow:visible}}
.loopkit .code summary{{list-style:none;font:inherit;white-space:pre;position:relative}}
.loopkit .code summary::before{{content:"\\25be";position:absolute;left:-1em;font-size:1.2em;line-height:1;
color:var(--lk-note)}}
.loopkit .code details:not([open])>summary::before{{content:"\\25b8"}}
.loopkit .margin{{color:var(--lk-note);user-select:none}}
""" + "".join(f".loopkit .{name}{{color:var(--lk-{name})}}\n" for name in _LIGHT if name not in ("line", "back"))


def as_html(document: Document) -> str:
    """*document* as one ``<div>`` with its own style.

    >>> from loopkit.show.document import Document, Paragraph
    >>> as_html(Document("a < b", (Paragraph(("x",)),))).partition("</style>")[2]
    '<div class="title">a &lt; b</div><p>x</p></div>'
    """
    title = f'<div class="title">{escape(document.title)}</div>' if document.title else ""
    return f'<div class="loopkit"><style>{STYLE}</style>{title}{"".join(map(_block_html, document.body))}</div>'


#: The page around a document, light or dark as the reader prefers.
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>:root{{color-scheme:light dark}}[data-theme="dark"]{{color-scheme:dark}}
body{{margin:1.5em auto;padding:0 1em;max-width:75em}}
body>.loopkit>.title{{font-size:1.5em}}
body>.loopkit>details{{margin:1em 0;padding-top:.6em;border-top:1px solid var(--lk-line)}}
body>.loopkit>details>summary{{font-size:1.15em}}</style></head>
<body>{body}</body>
</html>
"""


def as_page(document: Document) -> str:
    """*document* as an HTML page that needs no other file."""
    return _PAGE.format(title=escape(document.title), body=as_html(document))


def _block_html(block: Block) -> str:
    match block:
        case Paragraph(lines):
            return "".join(f"<p>{_line_html(line)}</p>" for line in lines)
        case Code():
            body = _folded_html(block, tuple(_code_html(block)))
            return f'<div class="code">{body}</div>' if block.folds else body
        case Table(head, rows):
            top = f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>" if any(head) else ""
            body = "".join(f"<tr>{''.join(f'<td>{_line_html(cell)}</td>' for cell in row)}</tr>" for row in rows)
            return f'<div class="box"><table>{top}{body}</table></div>'
        case Picture():
            return f'<div class="box">{block.svg}</div>'      # which has the words in itself
        case Fold():
            mark = " open" if block.is_open else ""
            return (f"<details{mark}><summary>{escape(block.title)}</summary>"
                    f"<div>{''.join(map(_block_html, block.body))}</div></details>")


def _line_html(line: Line) -> str:
    return "".join(map(_span_html, spans(line)))


def _span_html(span: Span) -> str:
    kind = f' class="{span.style}"' if span.style else ""
    hint = f' title="{escape(span.hint)}"' if span.hint else ""
    return f"<span{kind}{hint}>{escape(span.text, quote=False)}</span>" if kind or hint else \
        escape(span.text, quote=False)


def _code_html(code: Code) -> Iterator[str]:
    width = max((len(span.text) for span in code.margin), default=0)
    for number, line in enumerate(_coloured(code)):
        if not width:
            yield _line_html(line)
            continue
        span = code.margin[number]
        hint = f' title="{escape(span.hint)}"' if span.hint else ""
        yield f'<span{hint}><span class="margin">{escape(span.text):{width}} | </span>{_line_html(line)}</span>'


_LINE_BREAK = "\n"


def _folded_html(code: Code, lines: Sequence[str]) -> str:
    """*lines* with folds; a run of them is a ``<pre>`` without a line break at its end, which the next block adds."""
    folds = {fold.start: fold for fold in code.folds}

    def parts(number: int, end: int) -> Iterator[str]:
        while number < end:
            if fold := folds.get(number):
                head = _LINE_BREAK.join(lines[number:fold.body])
                yield f"<details open><summary>{head}</summary>{''.join(parts(fold.body, fold.end))}</details>"
                number = fold.end
            else:
                after = min((start for start in folds if number < start < end), default=end)
                # browsers copy an empty last line only if a line break follows it
                end_mark = "" if plain(code.lines[after - 1]).strip() else "\n"
                yield f"<pre>{_LINE_BREAK.join(lines[number:after])}{end_mark}</pre>"
                number = after
    return "".join(parts(0, len(lines)))


#: The styles of pygments' kinds of tokens, the outermost kinds first.
_KINDS: Mapping[str, Style] = {"Comment": "comment", "Keyword": "keyword", "Literal.Number": "number",
                               "Literal.String": "string"}


def _coloured(code: Code) -> Sequence[Line]:
    """The lines of *code*, in colours where pygments is installed."""
    if not code.language:
        return code.lines
    try:
        from pygments.lexers import CppLexer, PythonLexer  # type: ignore[import-untyped]
    except ImportError:
        return code.lines
    lexer = PythonLexer if code.language == "python" else CppLexer
    text = "\n".join(map(plain, code.lines))
    lines: list[list[Span]] = [[]]
    for kind, token in lexer(stripnl=False, ensurenl=False).get_tokens(text):
        style: Style = next((s for name, s in _KINDS.items() if str(kind).startswith(f"Token.{name}")), "")
        for number, part in enumerate(token.split("\n")):
            if number:
                lines.append([])
            lines[-1].append(Span(part, style))
    coloured = [_indented(line) for line in lines]
    return coloured if len(coloured) == len(code.lines) else code.lines


def _indented(line: Sequence[Span]) -> Line:
    """*line* with the indentation in its first token: nbconvert shortens a text of nothing but spaces."""
    start = next((i for i, span in enumerate(line) if span.text.strip()), 0)
    if not start:
        return tuple(line)
    indentation = "".join(span.text for span in line[:start])
    return Span(indentation + line[start].text, line[start].style), *line[start + 1:]
