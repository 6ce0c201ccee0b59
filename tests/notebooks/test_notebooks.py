"""The notebooks: run from top to bottom, with the outputs that are stored in them (``--update-golden`` stores them)."""
from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from loopkit.runtime.cuda.devices import why_not
from loopkit.show.golden import require_golden

DIRECTORY = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(DIRECTORY.glob("*.ipynb"))

#: The tag of cells whose output is measured, and so differs from run to run.
MEASURED = "measured"

#: Run by Jupyter before each notebook: C is compiled with -O0, as in other tests, and measurements, whose outputs are
#: not compared, are short.
QUICK = """
def quick():
    from loopkit import CompiledKernel
    from loopkit.runtime import compiler
    compiler.SAFE = compiler.SAFE[-1:]
    CompiledKernel.time.__wrapped__.__kwdefaults__.update(duration=0.001, warmup=0)
quick()
"""

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_nine_notebooks_in_a_row() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{i:02}" for i in range(1, len(NOTEBOOKS) + 1)]
    assert len(NOTEBOOKS) == 9


@each_notebook
def test_a_notebook_holds_its_outputs_and_nothing_else(path: Path) -> None:
    """No metadata of the machine that ran it; all cells run once, in order; the last output is measured."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == [*range(1, len(code) + 1)]
    assert all(set(cell.metadata) <= {"tags"} and cell.metadata.get("tags", [MEASURED]) == [MEASURED] for cell in code)
    assert [cell.id for cell in notebook.cells] == [f"cell-{i}" for i in range(1, len(notebook.cells) + 1)]
    assert MEASURED in [cell for cell in code if cell.outputs][-1].metadata.get("tags", [])


@each_notebook
def test_a_notebook_begins_with_its_title_and_links_to_the_next(path: Path) -> None:
    first, *_, last = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"]
    assert first.source.startswith("# ")
    following = next((other.name for other in NOTEBOOKS if other.name > path.name), None)
    assert following is None or f"]({following})" in last.source


@pytest.fixture(scope="module")
def execute(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Callable[[Any], None]]:
    """Runs a notebook, in one process for all: with no names of others, and the counts of a new one."""
    update, loop = pytestconfig.getoption("--update-golden"), asyncio.new_event_loop()

    async def run(notebook: Any) -> None:
        client = NotebookClient(notebook, km=manager, timeout=300, coalesce_streams=True,
                                resources={"metadata": {"path": DIRECTORY}})
        try:
            await client.async_execute()
        finally:
            await client.kc.execute("get_ipython().reset()", silent=True, reply=True, timeout=60)
            client.kc.stop_channels()

    with pytest.MonkeyPatch.context() as patch:
        _use_this_interpreter(tmp_path_factory.mktemp("jupyter"), patch, "" if update else QUICK)
        manager = AsyncKernelManager(kernel_name="python3")
        yield lambda notebook: loop.run_until_complete(run(notebook))
        loop.run_until_complete(manager.shutdown_kernel(now=True))
        loop.close()


# what jupyter_client and zmq warn about is theirs
@pytest.mark.filterwarnings("default")
@each_notebook
def test_a_notebook_gives_the_outputs_that_it_holds(path: Path, tmp_path: Path, execute: Callable[[Any], None],
                                                    pytestconfig: pytest.Config) -> None:
    stored = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    update = pytestconfig.getoption("--update-golden")
    execute(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", f"{cell.source}\n{output.text}"
    if update:
        _store(stored, notebook)
        path.write_text(nbformat.writes(stored) + "\n", encoding="utf-8")
        return
    if why_not() is None:
        pytest.skip("it ran; a GPU adds in another order, so that the errors in its outputs differ")
    golden = tmp_path / "outputs.txt"
    require_golden("\n".join(_texts(stored)), golden, "stored", update=True)
    require_golden("\n".join(_texts(notebook)), golden, f"{path.name} (text outputs)", update=False)


def _store(stored: Any, executed: Any) -> None:
    """Put the outputs of *executed* into *stored*; measured ones only where there are none, so that they stay those
    of the machine on which the text around them was written."""
    for i, (cell, new) in enumerate(zip(stored.cells, executed.cells, strict=True), 1):
        cell.id = f"cell-{i}"
        if cell.cell_type == "code":
            cell.execution_count = new.execution_count
            if not (_is_measured(cell) and cell.outputs):
                cell.outputs = new.outputs
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = {}
                if "execution_count" in output:
                    output.execution_count = new.execution_count


def _is_measured(cell: Any) -> bool:
    return MEASURED in cell.metadata.get("tags", [])


def _texts(notebook: Any) -> Iterator[str]:
    """The outputs of each cell that is not measured: text, and HTML without its tags; not the times of steps."""
    for cell in notebook.cells:
        if cell.cell_type == "code" and not _is_measured(cell):
            yield f"[{cell.execution_count}]"
            for output in cell.outputs:
                data = output.get("data", {})
                text = str(output.get("text", "")) + data.get("text/plain", "") + _words(data.get("text/html", ""))
                yield re.sub(r"[\d.]+ ms\b", "... ms", text)


def _words(html: str) -> str:
    return unescape(re.sub(r"<style>.*?</style>|<[^>]*>", "\n", html, flags=re.DOTALL))


def _use_this_interpreter(place: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """Jupyter's kernel ``python3`` is the interpreter of the tests, whatever else is installed; nothing is kept.

    :arg first: the code that it runs before each notebook.
    """
    spec = place / "kernels" / "python3"
    spec.mkdir(parents=True)
    arguments = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": arguments, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(place / name.lower()))
    startup = place / "ipythondir" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "first.py").write_text(first)
    root = str(DIRECTORY.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))
