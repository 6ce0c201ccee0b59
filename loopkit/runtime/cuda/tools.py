"""Programs of the CUDA toolkit: on the path, in ``$CUDA_HOME``, in Python packages, or where it is installed."""
from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_tool(name: str) -> str | None:
    """The full path of ``nvcc``, ``nvdisasm``, ...; ``None`` where there is none."""
    found = shutil.which(name)
    if found is not None:
        return found
    homes = [os.environ[home] for home in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(home)]
    return shutil.which(name, path=os.pathsep.join(str(Path(home, "bin")) for home in homes)) or _elsewhere(name)


def _elsewhere(name: str) -> str | None:
    """The program where NVIDIA's own search finds it: packages of Python and of conda, the system's places."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return None
    try:
        found: str | None = find_nvidia_binary_utility(name)
    except (RuntimeError, ValueError):          # a name that this version of the search does not know
        return None
    return found
