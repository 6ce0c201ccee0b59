"""What objects show in a browser: everything unfolded, no line reaches out of the page, in light and in dark."""
from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import loopkit as lk
from tests.show.test_show import kernel, samples

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

#: Measures the page after all of it is unfolded, and the contrast of each text with the page.
MEASURE = """
<script>
for (const fold of document.querySelectorAll("details")) fold.open = true;
const light = colour => {
  const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map(
    c => (c /= 255) <= 0.04045 ? c/12.92 : ((c + 0.055)/1.055)**2.4);
  return 0.2126*r + 0.7152*g + 0.0722*b;
};
const back = light(getComputedStyle(document.body).backgroundColor);
const contrast = e => {
  const own = light(getComputedStyle(e).color);
  return (Math.max(own, back) + 0.05)/(Math.min(own, back) + 0.05);
};
const page = document.scrollingElement;
document.body.dataset.found = JSON.stringify({
  over: page.scrollWidth - page.clientWidth,
  closed: document.querySelectorAll("details:not([open])").length,
  shown: document.querySelectorAll(".loopkit").length,
  contrast: Math.min(...[...document.querySelectorAll(".loopkit span, .loopkit p, .loopkit td, .loopkit pre")]
    .filter(e => e.textContent.trim()).map(contrast)),
});
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
@pytest.mark.parametrize(("theme", "colours"), [("light", "#ffffff;color:#111111"), ("dark", "#111318;color:#dddddd")])
@pytest.mark.parametrize("width", [500, 1100])
def test_the_page_holds_everything(theme: str, colours: str, width: int, tmp_path: Path) -> None:
    shown = [*samples().values(), kernel("matmul_tiled"), kernel("softmax_by_block")]
    body = "".join(x._repr_html_() for x in shown)
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html><html data-theme="{theme}"><meta charset="utf-8">'
                    f'<body style="background:{colours}">{body}{MEASURE}</body></html>', encoding="utf-8")
    found = of_browser(page, width)
    assert found["shown"] == len(shown)
    assert found["closed"] == 0
    assert found["over"] <= 0
    assert found["contrast"] >= 4.5                     # of WCAG 2, level AA


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_code_is_copied_as_a_whole(tmp_path: Path) -> None:
    """Neither its margin nor its folds change what a reader copies."""
    code = lk.generate_code(kernel("stencil_2d_vec"))
    page = tmp_path / "page.html"
    page.write_text(f"""<!doctype html><meta charset="utf-8"><body>{code._repr_html_()}<script>
        getSelection().selectAllChildren(document.querySelector(".code"));
        document.body.dataset.found = JSON.stringify({{text: getSelection().toString()}});</script></body>""",
                    encoding="utf-8")
    assert of_browser(page, 1100)["text"] == code.source.rstrip("\n")


def of_browser(page: Path, width: int) -> dict[str, Any]:
    done = subprocess.run([str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
                           f"--user-data-dir={page.parent / 'profile'}", "--dump-dom", page.as_uri()],
                          capture_output=True, text=True, check=True, timeout=100)
    (found,) = re.findall(r'data-found="([^"]*)"', done.stdout)
    return dict(json.loads(unescape(found)))
