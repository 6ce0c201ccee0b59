"""C of the host: blocks are an OpenMP loop, regions loops over the threads of a block."""
from __future__ import annotations

from loopkit.target.host.target import CTarget as CTarget
