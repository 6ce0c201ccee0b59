"""Other programs, run quietly."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

_TIMEOUT = 300


def run_quietly(command: Sequence[str], timeout: float = _TIMEOUT) -> subprocess.CompletedProcess[str]:
    """Run *command*; not being able to, within *timeout* seconds, is a failure like any other.

    Messages come in English.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired as err:
        said = err.stdout or b""
        text = said if isinstance(said, str) else said.decode(errors="replace")
        return subprocess.CompletedProcess(command, 127, text, str(err))
    except OSError as err:
        return subprocess.CompletedProcess(command, 127, "", str(err))
