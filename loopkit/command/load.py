"""The kernels of a user's files: ``FILE.py:KERNEL`` on the command line."""
from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import TracebackException
from types import ModuleType

from loopkit.errors import LoopkitError, UnknownNameError
from loopkit.kernel.kernel import LoopKernel

_PACKAGE = str(Path(__file__).parents[1])


class UsageError(LoopkitError):
    """Raised by the command line if its arguments do not fit, or a file cannot be run.

    :ivar trace: the lines of the traceback of the file's own exception.
    """

    def __init__(self, message: str, *, trace: Sequence[str] = (), hint: str | None = None) -> None:
        self.trace = trace
        super().__init__(message, hint=hint)

    def details(self) -> Sequence[str]:
        return self.trace


@dataclass(frozen=True)
class KernelAddress:
    """A kernel in a file.

    :ivar name: a variable, or a function without required arguments, of the file; or an attribute of one, with dots.
    """

    path: Path
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"


def load_kernel(address: KernelAddress) -> LoopKernel:
    """Run the file of *address* and take its kernel.

    The file runs as an imported module: its ``__name__`` is its stem, and it imports its neighbours, as it does under
    ``python FILE.py``. A second file may have neighbours of the same names. The output of the file goes to stderr.

    :raises UsageError: there is no such file, it raises an exception, or the name is not that of a kernel.
    :raises UnknownNameError: the file does not have this name.
    """
    path = address.path
    if path.suffix != ".py":
        raise UsageError(f"'{path}' is not a Python file, whose name ends in .py.",
                         hint="a kernel is named as FILE.py:KERNEL")
    if not path.is_file():
        raise UsageError(f"There is no file '{path}'.")
    with _as_if_run(path.resolve()) as module, contextlib.redirect_stdout(sys.stderr):
        with _exceptions_of(address):
            assert module.__spec__ is not None
            assert module.__spec__.loader is not None
            module.__spec__.loader.exec_module(module)
        return _kernel_in(module, address)


@contextlib.contextmanager
def _as_if_run(path: Path) -> Iterator[ModuleType]:
    """The module of the file *path*, which has not run yet; at the end, it and its neighbours are forgotten."""
    folder, name, modules, places = str(path.parent), path.stem, dict(sys.modules), list(sys.path)
    spec = spec_from_file_location(name, path, loader=SourceFileLoader(name, str(path)))
    assert spec is not None
    sys.modules[name] = module = module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        yield module
    finally:
        sys.path[:] = places
        tops = {x: x.partition(".")[0] for x in sys.modules.keys() - modules.keys()}
        for other, top in tops.items():
            if top not in modules and PathFinder.find_spec(top, [folder]) is not None:
                del sys.modules[other]
        if name in modules:
            sys.modules[name] = modules[name]


@contextlib.contextmanager
def _exceptions_of(address: KernelAddress) -> Iterator[None]:
    """:raises UsageError: the block raises an exception; with the traceback from the file on."""
    try:
        yield
    except (Exception, SystemExit) as err:
        raise UsageError(f"'{address.path}' raises {type(err).__name__}.",
                         trace=_trace(err, str(address.path.resolve()))) from err


def _trace(err: BaseException, path: str) -> list[str]:
    """The traceback of *err* from the first line of the file *path* on, without loopkit's own lines for its errors."""
    found, is_ours = TracebackException.from_exception(err), isinstance(err, LoopkitError)
    names = [frame.filename for frame in found.stack]
    first = names.index(path) if path in names else len(names)
    found.stack[:] = [frame for frame in found.stack[first:]
                      if not (is_ours and frame.filename.startswith(_PACKAGE))]
    return "".join(found.format(chain=not is_ours)).splitlines()


def _kernel_in(module: ModuleType, address: KernelAddress) -> LoopKernel:
    found: object = module
    for part in address.name.split("."):
        if not hasattr(found, part):
            raise UnknownNameError("name", address.name, _kernels_of(module), where=f"'{address.path}'")
        found = getattr(found, part)
    if not isinstance(found, LoopKernel) and callable(found):
        needed = [x.name for x in _parameters_of(found)
                  if x.default is x.empty and x.kind not in (x.VAR_POSITIONAL, x.VAR_KEYWORD)]
        if needed:
            raise UsageError(f"'{address.name}' of '{address.path}' needs the argument '{needed[0]}', so it "
                             "cannot be called here.", hint="write a function without arguments that calls it")
        with _exceptions_of(address):
            found = found()
    if not isinstance(found, LoopKernel):
        others = ", ".join(_kernels_of(module))
        raise UsageError(f"'{address.name}' of '{address.path}' gives an object of type {type(found).__name__}, "
                         "which is not a kernel.", hint=f"names that may give one: {others}" if others else None)
    return found


def _parameters_of(function: object) -> Sequence[inspect.Parameter]:
    try:
        return tuple(inspect.signature(function).parameters.values())    # type: ignore[arg-type]  # it is callable
    except ValueError:                                                   # a function in C may have no signature
        return ()


def _kernels_of(module: ModuleType) -> list[str]:
    """The names of the kernels of *module*, and of its functions that may make one."""
    return [name for name, value in vars(module).items() if isinstance(value, LoopKernel) or (
        inspect.isfunction(value) and value.__module__ == module.__name__
        and all(x.default is not x.empty for x in _parameters_of(value)))]
