"""loopy's tools: switches of caches, keys of dictionaries on disk, and values that may be missing.

loopkit keeps compiled code on disk, and ``LOOPKIT_CACHE_DIR`` is its place.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from pytools.persistent_dict import KeyBuilder

P = ParamSpec("P")
R = TypeVar("R")

#: loopkit's cache needs no switch.
CACHING_ENABLED = True


def set_caching_enabled(flag: bool) -> None:
    """Nothing changes: loopkit's cache is always right, as its key is the whole text and the compiler."""


class CacheMode:
    """A block in which caches are on or off; loopkit's cache stays as it is."""

    def __init__(self, new_flag: bool) -> None:
        self.new_flag = new_flag

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def clear_in_mem_caches() -> None:
    """Nothing to clear: results of analyses belong to their kernel."""


class LoopyKeyBuilder(KeyBuilder):
    """Makes keys of programs, kernels and their parts that are the same in every process."""

    # programs do not change the lists, sets and mappings that they have given to a kernel
    update_for_list = KeyBuilder.update_for_tuple
    update_for_set = KeyBuilder.update_for_frozenset
    update_for_dict = KeyBuilder.update_for_constantdict
    update_for_mappingproxy = KeyBuilder.update_for_constantdict

    def update_for_BasicSet(self, key_hash: Any, key: Any) -> None:    # noqa: N802  # the name of the class
        """A set or a relation of isl, by its text."""
        key_hash.update(str(key).encode())

    update_for_Set = update_for_BasicMap = update_for_Map = update_for_BasicSet     # noqa: N815


@dataclass(frozen=True, init=False)
class Optional:
    """A value that may be missing; ``temp_var_type=Optional(None)`` declares a temporary whose dtype follows."""

    given: tuple[Any, ...]

    def __init__(self, *value: Any) -> None:
        object.__setattr__(self, "given", value)

    @property
    def has_value(self) -> bool:
        return bool(self.given)

    @property
    def value(self) -> Any:
        """The value; :raises AttributeError: it is missing."""
        if not self.given:
            raise AttributeError("The value is missing.")
        return self.given[0]


def memoize_on_disk(func: Callable[P, R], key_builder_t: type[KeyBuilder] = LoopyKeyBuilder) -> Callable[P, R]:
    """*func* that keeps its results while the process runs: loopkit has no pickled objects on disk.

    >>> @memoize_on_disk
    ... def twice(n):
    ...     print("computed")
    ...     return 2*n
    >>> twice(4), twice(4)
    computed
    (8, 8)
    """
    builder, results = key_builder_t(), dict[str, R]()

    @functools.wraps(func)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        key = builder((args, tuple(sorted(kwargs.items()))))
        if key not in results:
            results[key] = func(*args, **kwargs)
        return results[key]
    return remembered
