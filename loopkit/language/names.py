"""The names that a user may give to arrays, inames, rules and kernels: those that are valid in every target."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count

from loopkit.analysis.match import matching_names
from loopkit.errors import NameConflictError
from loopkit.expr.functions import FUNCTIONS
from loopkit.expr.kinds import DTYPE_NAMES
from loopkit.expr.tokens import KEYWORDS
from loopkit.expr.tuple_operations import BUILT_IN
from loopkit.expr.tuples import COMBINING, STRUCT
from loopkit.instructions.table import CUDA_HELPERS

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)

#: Axes of the grid and the block, loops, dynamic shared memory, the parts of bounds checks, the old value of an
#: atomic update, and the parities of phases, as the code that is generated calls them.
_GENERATED = re.compile(r"[gl][0-2]_|[gl]__[0-2]|_loop\d+|shared_memory_|inside_|report_|violation_|old_|\w+_parities_")

_C = """
auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
_Bool _Complex _Imaginary alignas alignof asm bool catch class const_cast constexpr decltype delete dynamic_cast
explicit export false friend mutable namespace new noexcept nullptr operator private protected public
reinterpret_cast static_assert static_cast template this thread_local throw true try typeid typename using
virtual wchar_t and or not xor bitand bitor compl and_eq or_eq not_eq xor_eq concept requires main NULL NAN
INFINITY assert errno memcpy linux unix int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t
ptrdiff_t"""

#: The macros of <math.h> and <complex.h>: an array ``HUGE_VAL`` would be declared as a function.
_MACROS = """
CMPLX CMPLXF CMPLXL FP_ILOGB0 FP_ILOGBNAN FP_INFINITE FP_NAN FP_NORMAL FP_SUBNORMAL FP_ZERO FP_FAST_FMA FP_FAST_FMAF
FP_FAST_FMAL HUGE_VAL HUGE_VALF HUGE_VALL MATH_ERREXCEPT MATH_ERRNO complex imaginary fpclassify isnormal isgreater
isgreaterequal isless islessequal islessgreater isunordered math_errhandling"""

_CUDA = """threadIdx blockIdx blockDim gridDim warpSize dim3 half float2 float3 float4 double2 double3 double4 int2 int3
int4 uint uint2 uint3 uint4 cudaStream_t half2 nv_bfloat16 nv_bfloat162 hfloor hceil htrunc hrint atomicAdd atomicMin
atomicMax atomicAnd atomicOr atomicXor atomicCAS load_evict_last LoadEvictLast CUtensorMap"""

#: The helpers for reals that a language lacks.
_NARROW = """from_f16 to_f16 round_f16 from_bf16 to_bf16 round_bf16 odd_f32 from_e4m3 to_e4m3 round_e4m3 from_e5m2
to_e5m2 round_e5m2 bits_of_f32 f32_of_bits"""

#: The names of the language's functions in C: with an f for float32, with a c for complex numbers, and other names.
_FUNCTIONS = [f"{lead}{name}{end}" for name in [*FUNCTIONS, "fabs", "fmin", "fmax", "rint", "llabs", "labs", "hypot"]
              for lead in ("", "c") for end in ("", "f")]

#: Helpers for single operations of one dtype: min_i32, power3_f32, make_complex64.
_HELPER = re.compile(r"(floor_div|floor_mod|int_power|shift_(left|right)|abs|min|max|rsqrt(_normal)?|exp10|sinpi|cospi"
                     r"|power\d+|clz|bessel_[jy]n)_[iufc]\d+|make_complex(64|128)")

#: More functions of C's headers and of CUDA, which arrays may hide and kernels may not; with an f for float32.
_MATH = """
carg cproj cyl_bessel_i0 cyl_bessel_i1 erfcinv erfcx erfinv fdivide frexp ilogb j0 j1 jn llrint llround logb lrint
lround modf nan nearbyint nexttoward norm norm3d norm4d normcdf normcdfinv rcbrt remquo rhypot rnorm rnorm3d rnorm4d
scalbln scalbn sincos sincospi y0 y1 yn"""
_OTHERS = """clock clock64 cudaError_t cudaTextureObject_t llmax llmin rand std ullmax ullmin umax umin
stdin stdout stderr printf malloc free memset exit abort"""
LIBRARY = frozenset([*(f"{name}{end}" for name in _MATH.split() for end in ("", "f")), *_OTHERS.split()])

_CODE = re.compile(r"[iufc]\d{1,2}")

#: Names with a meaning in the language only before a parenthesis: arrays and sizes may have them too.
_CALLED = frozenset({*BUILT_IN, "reduce", "simul_reduce", "cast", "make_tuple", "segmented"}) - {"min", "max"}

#: Functions that generated code calls only where the text does: arrays and sizes of other kernels may have their names.
_HIDDEN = frozenset("""
exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh erf erfc lgamma tgamma
real imag""".split())  # noqa: SIM905 (as the other lists)

RESERVED = frozenset([*(KEYWORDS - {"end"}), *_C.split(), *_MACROS.split(), *_CUDA.split(), *CUDA_HELPERS,
                      *_NARROW.split(), *_FUNCTIONS])


def fault(name: str, *, called: bool = False) -> str | None:
    """The reason why a user may not use *name*, as the end of "'name' ..."; ``None``: the user may.

    :arg called: parentheses follow it, as after the name of a rule.

    >>> fault("threadIdx"), fault("x")
    ('is a reserved word of C or CUDA', None)
    """
    if not _IDENTIFIER.fullmatch(name):
        return "is not a name: a name has letters, digits and underscores, and does not begin with a digit"
    if name in _HIDDEN and not called:
        return None
    if name in FUNCTIONS or (name in BUILT_IN and name not in _CALLED) or (called and name in _CALLED):
        return "is a function of the kernel language"
    if name in RESERVED:
        return f"is a reserved word of {'the kernel language' if name in KEYWORDS else 'C or CUDA'}"
    if name.startswith("__") or (name[0] == "_" and name[1:2].isupper()):
        return "begins with underscores, as only the compiler's own names may"
    if any(used.fullmatch(name) for used in (_GENERATED, _HELPER, STRUCT, COMBINING)):
        return "is used in generated code for an axis, a loop, memory or a helper function"
    # numpy's short codes (i1, f4) may be names: where they mean a dtype, no name can occur
    if name in DTYPE_NAMES and not _CODE.fullmatch(name):
        return "is a dtype"
    return None


def another(name: str) -> str:
    """The advice for a *name* with a :func:`fault`.

    >>> another("half"), another("2x")
    ("another name, such as 'half_'", "another name, such as 'my_2x'")
    """
    base = name.lstrip("_")
    free = next((x for x in (f"{base}_", f"{base}_0", f"my_{base}") if fault(x) is None), None)
    return "another name" if free is None else f"another name, such as '{free}'"


def fresh(base: str, taken: set[str]) -> str:
    """*base*, or *base* with the first number appended that makes it new; *taken* gets it."""
    return next(fresh_names(base, taken))


def fresh_names(base: str, taken: set[str]) -> Iterator[str]:
    """New names without end: *base*, then *base* with a number appended; *taken* gets each of them."""
    for name in chain((base,), (f"{base}_{number}" for number in count())):
        if name not in taken:
            taken.add(name)
            yield name


def is_id(name: str) -> bool:
    """Can a statement have the id *name*?"""
    return _IDENTIFIER.fullmatch(name) is not None and name not in KEYWORDS


def name_list(names: str | Iterable[str]) -> tuple[str, ...]:
    """``"i, j"`` or an iterable of names, as a tuple; every public function that takes new names uses this.

    >>> name_list("i, j"), name_list(["i"])
    (('i', 'j'), ('i',))
    """
    return matching_names(names)


def require_free(name: str, taken: Collection[str], what: str, *, called: bool = False) -> None:
    """:raises NameConflictError: *name* is in *taken* or is reserved."""
    reason = fault(name, called=called) or ("is already in use" if name in taken else None)
    if reason is not None:
        raise NameConflictError(f"{what} '{name}' {reason}.", subject=name, hint=f"choose {another(name)}")


def require_kernel_name(name: str) -> None:
    """:raises NameConflictError: *name* cannot be the name of a function in generated text."""
    is_function = name in LIBRARY or name.removesuffix("l") in LIBRARY | RESERVED
    reason = fault(name) or ("is a function of C or CUDA" if is_function else None)
    if reason is not None:
        raise NameConflictError(f"The kernel's name '{name}' {reason}.", subject=name,
                                hint=f"make_kernel(..., name='{name}_kernel')" if _IDENTIFIER.fullmatch(name) else None)
