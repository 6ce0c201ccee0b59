"""C for the host: an OpenMP loop over the blocks, and in each region a loop over the threads of a block."""
from __future__ import annotations

from loopkit.target.host.target import CTarget as CTarget
