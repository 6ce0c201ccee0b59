"""Generated C on the host's processor, beside numpy, numba and loopy 2025.2's C target.

    python benchmarks/host.py               all kernels, about two minutes
    python benchmarks/host.py --only csr    kernels whose name contains the text

All run in one process, in an environment of its own that is made once (``.venv-host``), with the same number of
threads. They take turns. A ratio is the median over the rounds of the ratio of two times of one round.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-host"

#: The newest versions that loopkit and loopy 2025.2 both run with, and the other contestants.
REQUIREMENTS = ("loopy==2025.2", "islpy==2025.2.5", "pymbolic==2025.1", "pytools==2025.2.2", "platformdirs", "numba",
                "numpy", "threadpoolctl")


def python_of_environment() -> Path:
    """The interpreter of the environment, which is made if it is not there."""
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS) + "\n"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"making {ENVIRONMENT.name} for {', '.join(REQUIREMENTS)}", file=sys.stderr)
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *REQUIREMENTS],
                       check=True)
        stamp.write_text(wanted)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose name contains TEXT")
    parser.add_argument("--rounds", type=int, default=21, help="times of each contestant (21)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each (all processors)")
    parser.add_argument("--python", type=Path, help="an interpreter that has the packages already")
    args = parser.parse_args()
    threads = str(args.threads)
    # OPENBLAS_CORETYPE would make OpenBLAS run another processor's code
    environment = {**{x: value for x, value in os.environ.items() if not x.startswith("OPENBLAS_")},
                   **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), threads),
                   "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))}
    worker = Path(__file__).with_name("host_worker.py")
    python = args.python or python_of_environment()
    sys.exit(subprocess.run([python, worker, args.only, str(args.rounds)], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
