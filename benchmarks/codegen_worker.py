"""Runs benchmark kernels with loopkit or with loopy, in a process of its own, and says how long each stage took.

A line of standard input names a case; the answer is one line of JSON. The process stays, so that imports and the
like are paid once, but caches of results are emptied before each sample: what is measured is a kernel that the
process has not seen, in a process that is warm.
"""
from __future__ import annotations

import functools
import gc
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import codegen_kernels
import numpy as np

LRU_CACHE = type(functools.lru_cache(lambda: None))


class Clock:
    """When the kernel was written down."""

    def __init__(self) -> None:
        self.made_at = 0.0

    def made(self) -> None:
        self.made_at = time.perf_counter()


class Loopkit(Clock):
    """The cases' calls as loopkit's."""

    def __init__(self) -> None:
        super().__init__()
        import loopkit
        self.lk = loopkit

    def make(self, domains: str | Sequence[str], instructions: str, *, name: str, assumptions: str = "",
             shared: Mapping[str, int] | None = None, loopy_instructions: str | None = None,
             loopy_unshaped: Sequence[str] = ()) -> Any:
        data = None
        if shared:
            data = [self.lk.TemporaryVariable(x, np.float32, (length,), self.lk.AddressSpace.LOCAL)
                    for x, length in shared.items()]
            data.append("...")
        return self.lk.make_kernel(domains, instructions, data, name=name, assumptions=assumptions)

    def dtypes(self, knl: Any, dtypes: Mapping[str, Any]) -> Any:
        return self.lk.add_dtypes(knl, dtypes)

    def split(self, knl: Any, iname: str, length: int, outer_tag: str | None = None,
              inner_tag: str | None = None) -> Any:
        return self.lk.split_iname(knl, iname, length, outer_tag=outer_tag, inner_tag=inner_tag)

    def tag(self, knl: Any, tags: Mapping[str, str]) -> Any:
        return self.lk.tag_inames(knl, tags)

    def prefetch(self, knl: Any, array: str, inames: Sequence[str], *, loopy_outer: str | None = None,
                 loopy_box: bool = False) -> Any:
        return self.lk.add_prefetch(knl, array, list(inames), default_tag="l.auto")

    def steps(self, knl: Any) -> list[float]:
        """Seconds of each step whose legality was looked at, its application included."""
        return [step.seconds for step in knl.history if step.verdict == "proven"]

    def verify(self, knl: Any) -> float:
        """Seconds of all checks of the lowered kernel."""
        self.lk.generate_code(knl, target="cuda", verify=False)
        start = time.perf_counter()
        self.lk.verify(knl)
        return time.perf_counter() - start

    def lower(self, knl: Any) -> int:
        """Up to the last form before the text; gives the number of statements."""
        self.lk.lower(knl)
        return len(knl.statements)

    def text(self, knl: Any) -> str:
        return str(self.lk.generate_code(knl, target="cuda"))


def infinity(_kernel: Any, name: str) -> Any:
    """The dtype of what ``max`` starts from, which loopy knows in OpenCL only."""
    import loopy
    return (loopy.to_loopy_type(np.float32), name) if name == "INFINITY" else None


class Loopy(Clock):
    """The cases' calls as loopy's, with the help that it needs."""

    def __init__(self) -> None:
        super().__init__()
        warnings.simplefilter("ignore")     # it warns of its own deprecations and of checks that it leaves out
        import loopy
        loopy.set_caching_enabled(False)
        self.lp = loopy

    def make(self, domains: str | Sequence[str], instructions: str, *, name: str, assumptions: str = "",
             shared: Mapping[str, int] | None = None, loopy_instructions: str | None = None,
             loopy_unshaped: Sequence[str] = ()) -> Any:
        lp = self.lp
        data: list[Any] = [lp.GlobalArg(x, shape=None) for x in loopy_unshaped]
        data += [lp.TemporaryVariable(x, dtype=np.float32, shape=(length,), address_space=lp.AddressSpace.LOCAL)
                 for x, length in (shared or {}).items()]
        knl = lp.make_kernel(domains, loopy_instructions or instructions, [*data, "..."], name=name,
                             assumptions=assumptions, target=lp.CudaTarget(), lang_version=(2018, 2))
        return lp.register_symbol_manglers(knl, [infinity]) if "max(" in instructions else knl

    def dtypes(self, knl: Any, dtypes: Mapping[str, Any]) -> Any:
        return self.lp.add_dtypes(knl, dtypes)

    def split(self, knl: Any, iname: str, length: int, outer_tag: str | None = None,
              inner_tag: str | None = None) -> Any:
        return self.lp.split_iname(knl, iname, length, outer_tag=outer_tag, inner_tag=inner_tag)

    def tag(self, knl: Any, tags: Mapping[str, str]) -> Any:
        return self.lp.tag_inames(knl, dict(tags))

    def prefetch(self, knl: Any, array: str, inames: Sequence[str], *, loopy_outer: str | None = None,
                 loopy_box: bool = False) -> Any:
        more: dict[str, Any] = {}
        if loopy_outer is not None:
            more["fetch_outer_inames"] = loopy_outer
        if loopy_box:
            more["fetch_bounding_box"] = True
        return self.lp.add_prefetch(knl, array, list(inames), default_tag="l.auto", **more)

    def steps(self, knl: Any) -> list[float]:
        return []                            # it looks at the legality of none

    def verify(self, knl: Any) -> float:
        return 0.0                           # nor at the result

    def lower(self, knl: Any) -> int:
        knl = self.lp.linearize(self.lp.preprocess_program(knl))
        return len(knl.default_entrypoint.instructions)

    def text(self, knl: Any) -> str:
        return str(self.lp.generate_code_v2(knl).device_code())


def empty_caches() -> None:
    """Forget every result that a function remembers (loopy's own caches, on disk and in memory, are off)."""
    for each in gc.get_objects():
        if isinstance(each, LRU_CACHE | FunctionType) and hasattr(each, "cache_clear"):
            each.cache_clear()
    gc.collect()


def _timed(api: Loopkit | Loopy, build: Callable[[Any], Any], finish: Callable[[Any], Any]) -> tuple[list[float], Any]:
    """Seconds for making, transforming and finishing, and what *finish* gave."""
    empty_caches()
    start = time.perf_counter()
    knl = build(api)
    transformed = time.perf_counter()
    result = finish(knl)
    end = time.perf_counter()
    return [api.made_at - start, transformed - api.made_at, end - transformed], result


def sample(api: Loopkit | Loopy, name: str) -> dict[str, Any]:
    """One kernel twice from the start, once up to the text and once all the way: no stage profits from another."""
    case = next(c for c in codegen_kernels.CASES if c.name == name)
    try:
        (_, _, lower), statements = _timed(api, case.build, api.lower)
        empty_caches()
        built = case.build(api)
        steps, verify = api.steps(built), api.verify(built)
        (make, transform, generate), text = _timed(api, case.build, api.text)
    except Exception as err:  # noqa: BLE001  # whatever a package raises is its result for this case
        return {"error": f"{type(err).__name__}: {err}".strip().splitlines()[0]}
    return {"make": make, "transform": transform, "lower": min(lower, generate), "print": max(generate - lower, 0.0),
            "total": make + transform + generate, "statements": statements, "characters": len(text),
            "step": statistics.median(steps) if steps else 0.0, "verify": verify}


def main() -> None:
    api = {"loopkit": Loopkit, "loopy": Loopy}[sys.argv[1]]()
    answers, sys.stdout = sys.stdout, sys.stderr      # loopy prints the kernel that it fails on
    for line in sys.stdin:
        print(json.dumps(sample(api, line.rstrip("\n"))), file=answers, flush=True)


if __name__ == "__main__":
    main()
