"""The notebooks: stored without outputs, and run from top to bottom."""
from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

DIRECTORY = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(DIRECTORY.glob("*.ipynb"))

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_are_notebooks() -> None:
    assert {"01-first-kernel", "02-matmul"} <= {path.stem for path in NOTEBOOKS}


@each_notebook
def test_outputs_are_not_stored(path: Path) -> None:
    """They would make every diff unreadable."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not [cell.source for cell in notebook.cells if cell.cell_type == "code"
                and (cell.outputs or cell.execution_count is not None or cell.metadata)]
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"


# what jupyter_client and zmq warn about is theirs
@pytest.mark.filterwarnings("default")
@each_notebook
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(path, as_version=4)
    _use_this_interpreter(tmp_path, monkeypatch)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": DIRECTORY}})
    asyncio.run(client.async_execute())
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not [o.text for o in cell.outputs if o.output_type == "stream" and o.name == "stderr"], cell.source
            assert not [o for o in cell.outputs if o.output_type == "error"], cell.source
    assert any("__global__" in _text(output) for cell in notebook.cells if cell.cell_type == "code"
               for output in cell.outputs)


def _use_this_interpreter(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jupyter's kernel ``python3`` is the interpreter of the tests, whatever else is installed; nothing is kept."""
    spec = place / "kernels" / "python3"
    spec.mkdir(parents=True)
    arguments = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": arguments, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(place))
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(place / name.lower()))
    root = str(DIRECTORY.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))


def _text(output: Any) -> str:
    return str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
