"""Which statements can copy asynchronously."""
from __future__ import annotations

import pymbolic.primitives as p

from loopkit.analysis.accesses import expanded_expression
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel

#: Bytes that one asynchronous copy moves.
SIZES = (4, 8, 16)


def require_copies(knl: LoopKernel) -> None:
    """Every asynchronous statement of *knl* moves the bits of one element, as far as types are known.

    :raises PreconditionError: one converts or computes, or copies elements of another size than 4, 8 or 16 bytes.
    """
    for s in knl.statements:
        if not s.asynchronous:
            continue
        argument = None
        match expanded_expression(knl, s):
            case p.Subscript(aggregate=p.Variable(name=name)):
                argument = knl.array_args.get(name)
            case _:
                pass
        if s.combine is not None or s.written not in knl.temporaries or argument is None or s.predicates:
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it is no copy of an array's element.",
                                    subject=s.id, hint="copy it through registers, or compute where it is read")
        own, source = knl.temporaries[s.written].dtype, argument.dtype
        if own is not None and source is not None and own != source:
            raise PreconditionError(f"'{s.id}' cannot be asynchronous: it converts {source} to {own}.", subject=s.id,
                                    hint="copy it through registers, or convert where it is read")
        known = own or source
        if known is not None and known.itemsize not in SIZES:
            raise PreconditionError(
                f"'{s.id}' cannot be asynchronous: elements of {known} have {known.itemsize} bytes, not 4, 8 or 16.",
                subject=s.id, hint="copy it through registers")
