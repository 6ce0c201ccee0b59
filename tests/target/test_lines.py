"""Long lines of a text are broken where a reader expects it."""
from __future__ import annotations

import re

import pytest

from loopkit.target.emit import wrapped


def lines(text: str, width: int = 40) -> list[str]:
    found = list(wrapped([text], width))
    # nothing but the spaces at the breaks has changed
    assert re.sub(r"\s+", "", "".join(found)) == re.sub(r"\s+", "", text)
    return found


@pytest.mark.parametrize(("text", "broken"), [
    ("    y[i] = first[4*i_outer + i] + second[k];", [
        "    y[i] = first[4*i_outer + i] +",
        "            second[k];"]),
    ("    total_of_row[i_inner] = first_operand[i_inner];", [
        "    total_of_row[i_inner] =",
        "            first_operand[i_inner];"]),
    ("    first[4*i_outer + i]*second[k*m + j_inner];", [
        "    first[4*i_outer + i]*",
        "            second[k*m + j_inner];"]),
    ("    c[(16*i_outer + i_inner)*m + 16*j_outer + j] = t;", [
        "    c[(16*i_outer + i_inner)*m +",
        "                16*j_outer + j] = t;"]),
    ("    a[(4*i_outer + dim_0 - 1)*l + 16*k_outer - 1];", [
        "    a[(4*i_outer + dim_0 - 1)*l +",
        "                16*k_outer - 1];"]),
    ("    y[16*i_outer + name_of_an_iname + 4*j] = x[i] + x[j] + x[k];", [
        "    y[16*i_outer + name_of_an_iname +",
        "                4*j] = x[i] + x[j] +",
        "            x[k];"]),
])
def test_where_a_line_is_broken(text: str, broken: list[str]) -> None:
    assert lines(text) == broken


@pytest.mark.parametrize("text", [
    "    a_name_that_goes_on_for_longer_than_the_line[k];",
    "    // a comment of " + "many "*10,
    "#define SOMETHING that goes on for longer than " + "the "*5 + "line",
])
def test_what_cannot_be_broken_stays(text: str) -> None:
    assert lines(text) == [text]
