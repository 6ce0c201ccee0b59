"""The table of loopy's names: each has a place in the layer, or an advice; the documentation has the same names."""
from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

import loopkit.compat.loopy as lp
from loopkit.compat.loopy.names import ADVICE, PLACES

PAGE = Path(__file__).parents[2] / "docs/loopy.rst"


def names_that_the_layer_has() -> str:
    return ".. code-block:: text\n\n" + textwrap.indent(textwrap.fill(", ".join(lp.__all__), 116), "   ")


def names_that_the_layer_does_not_have() -> str:
    rows = "\n".join(f"   * - ``{name}``\n     - {advice}" for name, advice in sorted(ADVICE.items()))
    return f".. list-table::\n   :header-rows: 1\n   :widths: 40 60\n\n   * - loopy\n     - instead\n{rows}"


@pytest.mark.parametrize("listed", [names_that_the_layer_has, names_that_the_layer_does_not_have])
def test_the_page_has_the_names_of_the_table(listed: object, pytestconfig: pytest.Config) -> None:
    assert callable(listed)
    title = listed.__name__.replace("_", " ")
    begin, end = f".. {title}\n\n", f".. end of the {title}\n"
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"{PAGE} has no place for the {title}"
    new = f"{before}{begin}{listed()}\n\n{end}{after}"
    if pytestconfig.getoption("--update-golden"):
        PAGE.write_text(new, encoding="utf-8")
    else:
        assert text == new, "make them anew with --update-golden"


@pytest.mark.parametrize("name", PLACES.addresses)
def test_each_name_has_a_value(name: str) -> None:
    assert getattr(lp, name) is not None


@pytest.mark.parametrize("name", ADVICE)
def test_a_name_without_a_place_leads_to_another(name: str) -> None:
    with pytest.raises(AttributeError, match=f"has no '{name}'. Use {re.escape(ADVICE[name])}"):
        getattr(lp, name)
    assert name not in lp.__all__
    assert all(hasattr(lp, other) for other in re.findall(r"\blp\.(\w+)", ADVICE[name]))


def test_an_import_of_all_names() -> None:
    names: dict[str, object] = {}
    exec("from loopkit.compat.loopy import *", names)
    assert {"make_kernel", "split_iname", "GlobalArg", "auto"} <= names.keys()
