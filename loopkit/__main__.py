"""``python -m loopkit``: the kernels in a user's files, shown and checked, and what this machine runs them with."""
from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loopkit.command.actions import Answer, Status, check, differ, show, status_of, write_review
from loopkit.command.info import info
from loopkit.command.load import KernelAddress, UsageError
from loopkit.errors import CallError, LoopkitError, UnknownNameError
from loopkit.kernel.target import TARGETS
from loopkit.show.document import Document
from loopkit.show.html import as_page
from loopkit.show.text import as_rich, as_text

#: The version of the form of the JSON texts. New keys do not change it; new meanings of old keys do.
JSON_VERSION = 1

_STATUSES = """exit status:
  0  fine: shown, written, equal, or nothing refuted (what a step was allowed to assume counts as fine)
  1  refuted: a check found a counterexample, the kernel has no code, or the two kernels differ
  2  wrong usage: unknown arguments, sizes that are not allowed, no such kernel, or a file that raises an exception
  3  undecided: a check, or the comparison, found neither a proof nor a counterexample
"""

_KERNEL_HELP = """a kernel: FILE.py:NAME.  The file is run as an imported module.  NAME is a variable, or a function
without required arguments, or an attribute of one (a.b)."""

#: The actions by name: what each does, and in which forms it answers.
_ACTIONS: Mapping[str, tuple[Callable[[argparse.Namespace], Answer], str, Sequence[str]]] = {
    "show": (show, "print the card of a kernel and its code", ("text", "html", "json")),
    "diff": (differ, "print how a kernel differs from another one; with --target, how their codes differ",
             ("text", "html", "json")),
    "review": (write_review, "write a page about a kernel, and a program that checks it", ("text", "json")),
    "check": (check, "check a kernel: order, bounds, coverage, races, barriers; with --against, run both on the host",
              ("text", "html", "json"))}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    asked = _parser().parse_args(arguments)
    if asked.command == "info":
        for line in info():
            print(line)                                # noqa: T201
        return Status.FINE
    try:
        return _act(asked)
    except (UsageError, UnknownNameError, CallError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)        # noqa: T201
        return Status.MISUSED
    except LoopkitError as err:
        print(f"error: {err}", file=sys.stderr)        # noqa: T201
        return status_of(err)


def _act(asked: argparse.Namespace) -> Status:
    action, _, _ = _ACTIONS[asked.command]
    answer = action(asked)
    text = _formed(asked, answer)
    if asked.output is not None and action is not write_review:
        asked.output.write_text(f"{text}\n", encoding="utf-8", newline="\n")
    elif not (asked.format == "text" and sys.stdout.isatty() and _print_in_colours(answer.document)):
        print(text)                                    # noqa: T201
    return answer.status


def _print_in_colours(document: Document) -> bool:
    """Print *document* in the colours of a terminal, if rich is installed."""
    try:
        from rich.console import Console
    except ImportError:
        return False
    Console().print(as_rich(document), soft_wrap=True)
    return True


def _formed(asked: argparse.Namespace, answer: Answer) -> str:
    match asked.format:
        case "html":
            return as_page(answer.document)
        case "json":
            return json.dumps({"version": JSON_VERSION, "command": asked.command, "kernel": answer.kernel,
                               "status": int(answer.status), **answer.data}, indent=2)
        case _:
            return as_text(answer.document)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m loopkit", description="Loop kernels, proven and run.", epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, words, forms) in _ACTIONS.items():
        own = commands.add_parser(name, help=words, description=f"{words.capitalize()}.", epilog=_STATUSES,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
        own.add_argument("kernel", type=_address, metavar="FILE.py:KERNEL", help=_KERNEL_HELP)
        if name != "review":
            own.add_argument("--target", choices=sorted(TARGETS), help="the target of the code (default: cuda)"
                             if name != "diff" else "compare the code for this target")
        if name in ("diff", "check"):
            own.add_argument("--against", type=_address, metavar="FILE.py:KERNEL", required=name == "diff",
                             help="the kernel to compare with")
        if name in ("review", "check"):
            own.add_argument("--size", type=_size, action="append", default=[], metavar="NAME=NUMBER",
                             help="the value of a size of the kernel, for its program or the comparison (repeatable)")
        own.add_argument("--format", choices=forms, default="text", help="the form of the answer (default: text)")
        own.add_argument("--output", type=Path, metavar="PATH", help="write the answer to this file" if name != "review"
                         else "the page (default: NAME.html beside FILE.py)")
    commands.add_parser("info", help="list the compilers, GPUs and cache of this machine")
    return parser


def _address(text: str) -> KernelAddress:
    path, colon, name = text.rpartition(":")
    if not (colon and path and all(part.isidentifier() for part in name.split("."))):
        raise argparse.ArgumentTypeError(f"'{text}' does not name a kernel as FILE.py:KERNEL")
    return KernelAddress(Path(path), name)


def _size(text: str) -> tuple[str, int]:
    if re.fullmatch(r"\w+=-?\d+", text) is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not of the form NAME=NUMBER")
    name, _, number = text.partition("=")
    return name, int(number)


if __name__ == "__main__":
    sys.exit(main())
