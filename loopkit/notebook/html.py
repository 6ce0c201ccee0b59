"""HTML of kernels and generated code for notebooks: plain, escaped, without scripts or links."""
from __future__ import annotations

from html import escape

from loopkit.kernel.kernel import LoopKernel
from loopkit.kernel.printing import kernel_text
from loopkit.target.code import GeneratedCode
from loopkit.verification.report import Report

_PRE = '<pre style="line-height: 1.3; overflow-x: auto; white-space: pre">{0}</pre>'


def kernel_html(knl: LoopKernel) -> str:
    """The printed kernel as HTML."""
    return _PRE.format(escape(kernel_text(knl), quote=False))


def report_html(report: Report) -> str:
    """A report of checks as HTML."""
    return _PRE.format(escape(str(report), quote=False))


def code_html(code: GeneratedCode) -> str:
    """The generated text as HTML, in colours where pygments is installed."""
    return _PRE.format(_coloured(code.source))


def _coloured(source: str) -> str:
    try:
        from pygments import highlight  # type: ignore[import-untyped]
        from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
        from pygments.lexers import CppLexer  # type: ignore[import-untyped]
    except ImportError:
        return escape(source, quote=False)
    return str(highlight(source, CppLexer(), HtmlFormatter(nowrap=True, noclasses=True)))
