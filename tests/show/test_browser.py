"""Pages in a browser: everything unfolded, no error, no line beyond the page, and readable in light and in dark."""
from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import Browser, Page, Route, sync_playwright

import loopkit as lk
from loopkit.show.documents import document
from loopkit.show.html import as_page
from tests.show.test_show import kernel, samples

#: The browser of this machine; the tests never download one.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

WIDTHS = (480, 1200)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

#: Unfolds the page, and finds texts with too little contrast: below 4.5, of WCAG 2, level AA.
UNFOLD = """() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).map(c => (c /= 255) <= 0.04045 ? c/12.92 : ((c + 0.055)/1.055)**2.4);
    return 0.2126*r + 0.7152*g + 0.0722*b;
  };
  const canvas = document.createElement("div");
  canvas.style.background = "Canvas";
  document.body.append(canvas);
  const behind = e => {
    const own = e ? getComputedStyle(e).backgroundColor : getComputedStyle(canvas).backgroundColor;
    return !e || numbers(own)[3] !== 0 ? own : behind(e.parentElement);
  };
  const contrast = e => {
    const [own, back] = [getComputedStyle(e).color, behind(e)].map(light);
    return (Math.max(own, back) + 0.05)/(Math.min(own, back) + 0.05);
  };
  const texts = [...document.querySelectorAll(".loopkit :is(span, p, td, th, pre, summary)")];
  return {
    texts: texts.length,
    faint: texts.filter(e => e.textContent.trim() && contrast(e) < 4.5).map(e => e.outerHTML.slice(0, 200)),
    closed: document.querySelectorAll("details:not([open])").length,
  };
}"""

OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all pages."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def review(folder: Path, name: str) -> Path:
    return lk.review(kernel(name), folder / f"{name}.html")[0]


def objects(folder: Path, theme: str) -> Path:
    """All public objects on a page whose theme is set by its attribute."""
    shown = [*samples().values(), kernel("matmul_tiled"), kernel("softmax_by_block")]
    colours = {"light": "#ffffff;color:#111111", "dark": "#111318;color:#dddddd"}[theme]
    page = folder / "page.html"
    page.write_text(f'<!doctype html><html data-theme="{theme}"><meta charset="utf-8">'
                    f'<body style="background:{colours}">{"".join(x._repr_html_() for x in shown)}</body></html>',
                    encoding="utf-8")
    return page


def notebook(folder: Path, theme: str) -> Path:
    """A notebook with what its cells show, converted as Jupyter does it."""
    values = [kernel("matmul_tiled"), lk.generate_code(kernel("jacobi")), kernel("transpose").history.show(),
              samples()["IllegalTransformError"], lk.diff(kernel("vector_add"), kernel("vector_add_mapped")),
              kernel("stencil_2d").plot("domain")]
    return converted(folder, values, theme)


def converted(folder: Path, values: Sequence[Any], theme: str = "light") -> Path:
    cells = [new_code_cell(f"show({number})", outputs=[new_output("display_data", {
        "text/html": x._repr_html_(), "text/plain": str(x)})]) for number, x in enumerate(values)]
    made = new_notebook(cells=cells)
    nbformat.validate(made)
    text, _ = HTMLExporter(theme=theme).from_notebook_node(made)
    (folder / "notebook.html").write_text(text, encoding="utf-8")
    return folder / "notebook.html"


def committed(folder: Path) -> Path:
    """A notebook of this project, converted."""
    text, _ = HTMLExporter().from_filename(str(NOTEBOOKS / "05-reductions.ipynb"))
    (folder / "committed.html").write_text(text, encoding="utf-8")
    return folder / "committed.html"


def command(folder: Path) -> Path:
    """A page of the command line."""
    page = folder / "check.html"
    page.write_text(as_page(document(lk.verify(kernel("scan_by_block")))), encoding="utf-8")
    return page


PAGES: dict[str, Callable[[Path], Path]] = {
    "objects in light": lambda folder: objects(folder, "light"),
    "objects in dark": lambda folder: objects(folder, "dark"),
    "notebook in light": lambda folder: notebook(folder, "light"),
    "notebook in dark": lambda folder: notebook(folder, "dark"),
    "notebook of this project": committed,
    "review": lambda folder: review(folder, "matmul_tiled"),
    "review without a program": lambda folder: review(folder, "csr_matvec"),
    "check": command,
}


@dataclass(frozen=True)
class Seen:
    """What a browser finds on a page, in light and in dark.

    :ivar over: for each width the pixels beyond it.
    :ivar asked: addresses of the network.
    """

    texts: int
    closed: int
    faint: list[str]
    over: dict[int, int]
    errors: list[str]
    asked: list[str]


def seen(browser: Browser, path: Path) -> Seen:
    found = Seen(0, 0, [], {}, [], [])

    def answer(route: Route) -> None:
        """Nothing of the network is there; Jupyter's pages ask for it, ours must not."""
        found.asked.append(route.request.url)
        route.fulfill(status=200, body="")

    page = browser.new_page()
    page.route(re.compile("^https?:"), answer)
    page.on("console", lambda message: found.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: found.errors.append(str(error)))
    page.goto(path.as_uri())
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        measured = page.evaluate(UNFOLD)
        found = replace(found, texts=measured["texts"], closed=measured["closed"],
                        faint=[*found.faint, *measured["faint"]])
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            found.over[width] = max(found.over.get(width, 0), page.evaluate(OVERFLOW))
    page.close()
    return found


@contextmanager
def opened(browser: Browser, path: Path) -> Iterator[Page]:
    """A page without the network."""
    page = browser.new_page()
    page.route(re.compile("^https?:"), lambda route: route.fulfill(status=200, body=""))
    page.goto(path.as_uri())
    yield page
    page.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_read(name: str, browser: Browser, tmp_path: Path) -> None:
    found = seen(browser, PAGES[name](tmp_path))
    assert found.texts > 10
    assert found.closed == 0
    assert found.faint == []
    assert found.over == dict.fromkeys(WIDTHS, 0)
    assert found.errors == []
    assert not found.asked or name.startswith("notebook")


def test_faults_are_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><meta name="color-scheme" content="light dark"><div class="loopkit">'
                    '<p style="color:#aaa">faint in light</p><p style="color:#444">faint in dark</p><p>right</p>'
                    '<pre style="width:500px">wide</pre></div>'
                    '<script src="http://localhost/x.js"></script><script>nothing()</script>')
    found = seen(browser, page)
    assert [re.sub("<.*?>", "", text) for text in found.faint] == ["faint in light", "faint in dark"]
    assert found.over[480] > 0
    assert found.over[1200] == 0
    assert found.errors == ["nothing is not defined"]
    assert found.asked == ["http://localhost/x.js"]


def alone(folder: Path, code: lk.GeneratedCode) -> Path:
    path = folder / "page.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><body>{code._repr_html_()}</body>', encoding="utf-8")
    return path


@pytest.mark.parametrize("page_of", [alone, lambda folder, code: converted(folder, [code])], ids=["page", "notebook"])
def test_code_is_copied_as_a_whole(browser: Browser, tmp_path: Path,
                                   page_of: Callable[[Path, lk.GeneratedCode], Path]) -> None:
    """Neither its margin nor its folds change what a reader copies."""
    code = lk.generate_code(kernel("stencil_2d_vec"))
    with opened(browser, page_of(tmp_path, code)) as page:
        text = page.evaluate("""() => {
            getSelection().selectAllChildren(document.querySelector(".code"));
            return getSelection().toString();
        }""")
    assert text == code.source.rstrip("\n")


def test_pictures_become_smaller_on_narrow_pages_up_to_a_limit(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><body>{kernel("transpose").plot("access")._repr_html_()}',
                    encoding="utf-8")
    scales = []
    with opened(browser, path) as page:
        for width in (1600, 800, 300):
            page.set_viewport_size({"width": width, "height": 900})
            scales.append(page.evaluate("""() => {
                const picture = document.querySelector("svg");
                return picture.getBoundingClientRect().width/picture.viewBox.baseVal.width;
            }"""))
            assert page.evaluate(OVERFLOW) == 0
    assert scales[0] == 1
    assert .75 < scales[1] < 1
    assert scales[2] == pytest.approx(.75, abs=.01)


def test_tables_look_alike_in_notebooks(browser: Browser, tmp_path: Path) -> None:
    """Jupyter's own style aligns the cells of tables on the right, and stripes the rows."""
    with opened(browser, converted(tmp_path, [kernel("matmul_tiled")])) as page:
        aligned, backgrounds = page.evaluate("""() => {
            const styles = where => [...document.querySelectorAll(where)].map(e => getComputedStyle(e));
            return [styles(".loopkit :is(th, td)").map(s => s.textAlign),
                    styles(".loopkit tr").map(s => s.backgroundColor)];
        }""")
    assert set(aligned) == {"left"}
    assert set(backgrounds) == {"rgba(0, 0, 0, 0)"}
