"""C11 with its mathematical library, as a table."""
from __future__ import annotations

from loopkit.instructions.atomic_update import OPENMP, AtomicUpdate
from loopkit.target.c.dialect import COMPLEX_FUNCTIONS, INTEGERS, REALS, Dialect
from loopkit.target.host import half_text

# built from its parts, because re + im*I would turn infinities and signed zeros into NaNs and plain zeros
_C_COMPLEX = """
static inline TYPE _Complex make_NAME(TYPE re, TYPE im)
{
    union { TYPE parts[2]; TYPE _Complex number; } both = {{re, im}};
    return both.number;
}
"""

#: C11 with its mathematical library.
C = Dialect(
    types={**INTEGERS, **REALS, "bool": "_Bool", "float16": "float16", "bfloat16": "bfloat16",
           "complex64": "float _Complex", "complex128": "double _Complex"},
    qualifier="static inline",
    helped=frozenset({"rsqrt", "exp10", "sinpi", "cospi"}),
    complex_names=COMPLEX_FUNCTIONS, complex_marked=True, complex_maker="make_{0}",
    complex_text={None: "#include <complex.h>\n#undef I",
                  "complex64": _C_COMPLEX.replace("NAME", "complex64").replace("TYPE", "float"),
                  "complex128": _C_COMPLEX.replace("NAME", "complex128").replace("TYPE", "double")},
    half_text=half_text.STORAGE, half_helpers=half_text.HELPERS,
    includes=("#include <math.h>",), no_parameters="void", instructions={AtomicUpdate: OPENMP})
