"""Stage 9: text."""
from __future__ import annotations

from loopkit.analysis.shapes import require_in_bounds
from loopkit.errors import PreconditionError
from loopkit.kernel.kernel import LoopKernel, require_kernel
from loopkit.lowering.pipeline import lower_fully
from loopkit.poly.limits import bounded
from loopkit.target.code import GeneratedCode, Layout
from loopkit.target.cuda import CudaTarget, cuda_code
from loopkit.target.host import CTarget, c_code


def generate_code(knl: LoopKernel, target: str | CudaTarget | CTarget = "cuda", *,
                  layout: Layout | None = None) -> GeneratedCode:
    """The source text of *knl* for a target.

    :arg target: ``"cuda"``, ``"c"``, or a target object (``lk.CudaTarget(arch="sm_80")``).
    :arg layout: what of the arrays' memory layout the text is made for; default: C order, 32-bit indices.
    :raises PreconditionError: there is no such target.
    :raises TypeInferenceError: a dtype is not known; see :func:`loopkit.add_dtypes`.
    :raises BoundsError: an access lies outside its array for some sizes.
    :raises LimitError: the kernel needs more threads, shared memory or blocks than the target has.

    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.add_dtypes(knl, {"x": np.float32})
    >>> print(lk.generate_code(knl, target="c"))  # doctest: +ELLIPSIS
    #include <math.h>
    ...
    void twice(...
    """
    require_kernel(knl, "generate_code")
    layout = layout if layout is not None else Layout()
    with bounded(f"generating code for kernel '{knl.name}'"):
        return _generated(knl, target, layout)


def _generated(knl: LoopKernel, target: str | CudaTarget | CTarget, layout: Layout) -> GeneratedCode:
    require_in_bounds(knl)
    lowered = lower_fully(knl)
    match resolve_target(target):
        case CudaTarget() as cuda:
            return cuda_code(lowered, cuda, layout)
        case CTarget():
            return c_code(lowered, layout)


def resolve_target(target: object) -> CudaTarget | CTarget:
    """The target object that a string stands for; :raises PreconditionError: there is none."""
    if isinstance(target, CudaTarget | CTarget):
        return target
    if target == "cuda":
        return CudaTarget()
    if target == "c":
        return CTarget()
    raise PreconditionError(f"{target!r} is no target.", subject=str(target),
                            hint='the targets are "cuda" and "c", or lk.CudaTarget(arch="sm_90")')
