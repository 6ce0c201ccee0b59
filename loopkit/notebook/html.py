"""HTML of kernels, reports and generated code for notebooks: plain, escaped, without scripts or links."""
from __future__ import annotations

from html import escape

_PRE = '<pre style="line-height: 1.3; overflow-x: auto; white-space: pre">{0}</pre>'


def as_html(value: object) -> str:
    """The printed form of a kernel or a report as HTML."""
    return _PRE.format(escape(str(value), quote=False))


def code_html(code: object) -> str:
    """The generated text as HTML, in colours where pygments is installed."""
    try:
        from pygments import highlight  # type: ignore[import-untyped]
        from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
        from pygments.lexers import CppLexer  # type: ignore[import-untyped]
    except ImportError:
        return as_html(code)
    return _PRE.format(highlight(str(code), CppLexer(), HtmlFormatter(nowrap=True, noclasses=True)))
