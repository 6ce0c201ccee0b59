"""Other programs, run quietly."""
from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

_TIMEOUT = 300


def run_quietly(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run *command*; not being able to is a failure like any other. Messages come in English."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired) as err:
        return subprocess.CompletedProcess(command, 127, "", str(err))
