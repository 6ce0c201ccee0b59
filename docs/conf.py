"""Sphinx configuration: pages by hand, the reference from the docstrings."""
from __future__ import annotations

import doctest
import importlib.metadata
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes

project = "loopkit"
author = "the loopkit authors"
copyright = f"2026, {author}"  # noqa: A001  # Sphinx's name
release = importlib.metadata.version("loopkit")

extensions = ["sphinx.ext.autodoc", "myst_nb"]
exclude_patterns = ["_build"]
# notebooks hold their outputs, and the tests run them
nb_execution_mode = "off"

html_theme = "furo"
html_title = f"loopkit {release}"
html_static_path = ["_static"]
html_css_files = ["loopkit.css"]
pygments_dark_style = "github-dark"

# signatures as they are in the source: "Kernel", not "loopkit.kernel.kernel.LoopKernel"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_type_aliases = {"npt.DTypeLike": "DTypeLike"}
python_use_unqualified_type_names = True
add_module_names = False


def setup(app: Any) -> None:
    copy_notebooks()
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("source-read", with_drawings)
    app.connect("doctree-read", wrapped_messages)


def wrapped_messages(_app: Any, doctree: nodes.document) -> None:
    """The message of an error or a warning has long lines, which are to be read without scrolling."""
    for block in doctree.findall(lambda node: isinstance(node, nodes.doctest_block | nodes.literal_block)):
        if re.search(r"\n  hint: |\nloopkit\.errors\.|\n\w+Warning: ", block.astext()):
            block["classes"].append("wraps")


def with_drawings(_app: Any, page: str, source: list[str]) -> None:
    """Below each example of the page on pictures that prints one, its drawing."""
    if page != "pictures":
        return
    lines, names = source[0].splitlines(), dict[str, Any]()
    drawings: list[tuple[int, str]] = []
    for example in doctest.DocTestParser().get_examples(source[0]):
        printed: list[Any] = []
        exec(example.source, names | {"print": printed.append}, names)
        end = example.lineno + len(example.source.splitlines()) + len(example.want.splitlines())
        drawings += [(end, plot.svg) for plot in printed if hasattr(plot, "svg")]
    for end, svg in reversed(drawings):
        box = f'<div style="overflow-x:auto;margin-bottom:1em">{svg}</div>'.replace("\n", "&#10;")
        lines[end:end] = ["", ".. raw:: html", "", f"   {box}", ""]
    source[0] = "\n".join(lines)


def copy_notebooks() -> None:
    """Sphinx reads the notebooks from docs/notebooks, which git ignores."""
    here = Path(__file__).parent
    shutil.rmtree(here / "notebooks", ignore_errors=True)
    shutil.copytree(here.parent / "notebooks", here / "notebooks", ignore=shutil.ignore_patterns(".*"))


def without_constructor(_app: Any, what: str, name: str, *_: object) -> tuple[str, None] | None:
    """Show a class whose objects only loopkit makes without the signature of its constructor."""
    made_by_loopkit = {"LoopKernel", "GeneratedCode", "CompiledKernel", "Outputs", "Witness", "HistoryStep",
                       "AddressSpace"}
    return ("", None) if what == "exception" or name.rpartition(".")[2] in made_by_loopkit else None
