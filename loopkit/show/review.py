"""The review of a kernel: one HTML page with all that is known of it, and a standalone program that checks it."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path

from loopkit.errors import CompilerError, DeviceError, PreconditionError, require_known
from loopkit.kernel.annotations import checked
from loopkit.kernel.kernel import LoopKernel
from loopkit.poly.limits import bounded
from loopkit.runtime.compiled import compile as compiled_kernel
from loopkit.show.code import code_document
from loopkit.show.document import Block, Code, Document, Fold, Paragraph, Span
from loopkit.show.documents import document
from loopkit.show.html import as_page
from loopkit.show.kernels import kernel_document
from loopkit.show.program import standalone_program
from loopkit.verification.checks import generate_code, verify


@checked
def review(knl: LoopKernel, path: str | PathLike[str], *, sizes: Mapping[str, int] | None = None) -> tuple[Path, ...]:
    """Write the review of *knl*: the HTML page *path*, and beside it a standalone CUDA program of the same stem.

    The page begins with the kernel as it was made and its card. It also has the report of :func:`loopkit.verify`, and
    the generated code with the launches of the host. If there is a CUDA compiler, it shows the resources on the GPU.
    The page needs no other file.

    The program (``nvcc file.cu``) fills the arrays with fixed data, runs the kernel, checks every output element
    against the plain loops of the kernel as it was made, and measures the time of a call. Its exit status is 0 if all
    elements are right. A kernel whose data must fit together, such as one with index arrays, has a page
    without a program, and the page tells why.

    :arg sizes: values of integer parameters for the program; others get a value that the assumptions allow.
    :returns: the files written.
    :raises PreconditionError: *path* ends in ``.cu``.
    :raises UnknownNameError: a name in *sizes* is no integer parameter.
    :raises LoopkitError: the errors of :func:`loopkit.generate_code`.
    :raises OSError: a file cannot be written.

    >>> import tempfile
    >>> knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="twice")
    >>> knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print([file.name for file in lk.review(knl, f"{folder}/twice.html", sizes={"n": 1000})])
    ['twice.html', 'twice.cu']
    """
    page, program = Path(path), Path(path).with_suffix(".cu")
    if page == program:
        raise PreconditionError(f"'{page}' is the file of the program of the review, not of its page.",
                                subject=str(page), hint=f"give '{page.with_suffix('.html')}'")
    with bounded(f"reviewing kernel '{knl.name}'"):
        return _reviewed(knl, page, program, sizes)


def _reviewed(knl: LoopKernel, page: Path, program: Path, sizes: Mapping[str, int] | None) -> tuple[Path, ...]:
    """The files written."""
    require_known("size", sizes or {}, knl.value_params, where=f"kernel '{knl.name}'")
    generate_code(knl, "cuda")                          # refuses what has no code, before a file is written
    try:
        text, note = standalone_program(knl, sizes), f"{program.name} checks this kernel: nvcc {program.name}"
    except PreconditionError as err:
        text, note = "", f"There is no program for this kernel. {err}"
    shown = Document(f"Review of kernel '{knl.name}'", tuple(_review_parts(knl, note)))
    page.write_text(as_page(shown), encoding="utf-8", newline="\n")
    if text:
        program.write_text(text, encoding="utf-8", newline="\n")
    return (page, program) if text else (page,)


def _review_parts(knl: LoopKernel, note: str) -> Iterator[Block]:
    made = knl.history.made
    yield Fold("As made", (Paragraph(("The kernel was not made by make_kernel.",)),) if made is None else
               (Code(tuple(str(made).splitlines()), "python"),))
    card = kernel_document(knl)
    yield Fold(card.title, card.body)
    report = document(verify(knl))
    yield Fold(f"Checks of {report.title}", report.body)
    yield Fold("Resources", _resources(knl))
    yield Fold("Program", (Paragraph(tuple(note.splitlines())),))
    code = code_document(generate_code(knl, "cuda"))
    yield Fold(f"Code {code.title}", code.body)


def _resources(knl: LoopKernel) -> tuple[Block, ...]:
    try:
        return document(compiled_kernel(knl, "cuda").resources).body
    except (CompilerError, DeviceError) as err:
        return (Paragraph((Span(f"not known: {err.message}", "note"),)),)
