"""loopy's exception classes: each is one of loopkit's, or a class of the layer below ``LoopkitError``."""
from __future__ import annotations

from pytools.prefork import ExecError

from loopkit.errors import (
    BoundsError,
    CallError,
    CompilerError,
    EquivalenceError,
    LoopkitError,
    LoopkitWarning,
    PreconditionError,
    ScheduleError,
    StorageError,
    TypeInferenceError,
    UndecidedError,
    VerificationError,
)

# a handler of loopy's base class gets every error of loopkit
LoopyError = LoopkitError
LoopyWarning = LoopyAdvisory = LoopyWarningBase = LoopkitWarning
WriteRaceConditionWarning = ParameterFinderWarning = LoopkitWarning

AutomaticTestFailure = EquivalenceError
ExpressionNotAffineError = ExpressionToAffineConversionError = UndecidedError
LoopyIndexError = BoundsError
LoopyTypeError = TypeInferenceFailure = TypeInferenceError
MissingBarrierError = VerificationError
MissingDefinitionError = StorageError
ReductionIsNotTriangularError = StaticValueFindingError = PreconditionError
UnableToDetermineAccessRangeError = UndecidedError
UnscheduledInstructionError = ScheduleError


class DirectCallUncachedWarning(LoopkitWarning):
    """loopy's warning of a call that compiles again. Programs silence it; a program here keeps what it compiled."""


class NoExecutable(CompilerError, ExecError):  # noqa: N818 (as loopy's names)
    """A compiler is missing, or refuses the text: the error that loopy gets from pytools."""


class VariableAccessNotOrdered(LoopkitError):  # noqa: N818 (loopy's name)
    """Two statements access one variable, and no chain of dependences orders them."""


class DependencyCycleFound(LoopkitError):  # noqa: N818 (loopy's name)
    """Statements depend on each other in a circle."""


class StridesMismatchError(CallError, ValueError):
    """An array of a call has other strides than the kernel expects; loopy raises a ``ValueError``."""
