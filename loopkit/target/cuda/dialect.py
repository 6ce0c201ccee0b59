"""CUDA C++ as a table, for device code and for the host; NVRTC needs headers for halves only."""
from __future__ import annotations

from dataclasses import replace

from loopkit.expr.random_numbers import RANDOM_CALLS, random_texts
from loopkit.instructions.table import CUDA_HELPERS, CUDA_TEXTS
from loopkit.kernel.data import CachePolicy
from loopkit.target.c.dialect import INTEGERS, REALS, Dialect, Functions, Syntax
from loopkit.target.complex_functions import COMPLEX_FUNCTIONS, DIVISION, filled
from loopkit.target.narrow_reals import EIGHT_BIT_TYPES, conversions

#: CUDA C++ has no function for the policy evict_last; PTX has an instruction on some architectures. The kernel does not
#: write to such an array, so the compiler may move its loads like any load of constants. The policy is created once, at
#: the start of a function: created at each load, it would serialize loads under conditions.
_EVICT_LAST = """
struct LoadEvictLast {  // caches evict last what it loads
#if __CUDA_ARCH__ >= 800
    unsigned long long policy;

    __device__ __forceinline__ LoadEvictLast()
    {
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    }
#endif
    template <typename T>
    __device__ __forceinline__ T operator()(const T *p) const
    {
#if __CUDA_ARCH__ >= 800
        T value = {};
        if constexpr (sizeof(T) == 16) {
            uint4 w;
            asm("ld.global.L1::evict_last.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p), "l"(policy));
            memcpy(&value, &w, sizeof(T));
        } else if constexpr (sizeof(T) == 8) {
            uint2 w;
            asm("ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;"
                : "=r"(w.x), "=r"(w.y) : "l"(p), "l"(policy));
            memcpy(&value, &w, sizeof(T));
        } else if constexpr (sizeof(T) == 4) {
            unsigned int w;
            asm("ld.global.L1::evict_last.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(w) : "l"(p), "l"(policy));
            memcpy(&value, &w, sizeof(T));
        } else {
            value = *p;
        }
        return value;
#else
        return *p;
#endif
    }
};
"""

#: Complex numbers, which CUDA C++ lacks: a type NAME of two numbers of a TYPE, whose functions end in MARK, with its
#: operators. A real operand becomes complex where this keeps all bits.
_COMPLEX = """
struct __align__(ALIGN) NAME {
    TYPE re, im;
    NAME() = default;
    __device__ NAME(TYPE re, TYPE im = 0) : re(re), im(im) {}
    template <typename Other> __device__ explicit NAME(Other z) : re((TYPE)z.re), im((TYPE)z.im) {}
};
__device__ __forceinline__ NAME operator-(NAME a) { return NAME(-a.re, -a.im); }
__device__ __forceinline__ NAME operator+(NAME a, NAME b) { return NAME(a.re + b.re, a.im + b.im); }
__device__ __forceinline__ NAME operator+(NAME a, TYPE b) { return NAME(a.re + b, a.im); }
__device__ __forceinline__ NAME operator+(TYPE a, NAME b) { return NAME(a + b.re, b.im); }
__device__ __forceinline__ NAME operator-(NAME a, NAME b) { return NAME(a.re - b.re, a.im - b.im); }
__device__ __forceinline__ NAME operator-(TYPE a, NAME b) { return NAME(a - b.re, -b.im); }
__device__ __forceinline__ NAME operator*(NAME a, NAME b)
{
    return NAME(a.re*b.re - a.im*b.im, a.re*b.im + a.im*b.re);
}
__device__ __forceinline__ NAME operator*(NAME a, TYPE b) { return NAME(a.re*b, a.im*b); }
__device__ __forceinline__ NAME operator*(TYPE a, NAME b) { return NAME(a*b.re, a*b.im); }
__device__ __forceinline__ NAME operator/(NAME a, TYPE b) { return NAME(a.re / b, a.im / b); }\
""" + DIVISION.replace("DIVIDE", "operator/") + """\
__device__ __forceinline__ bool operator==(NAME a, NAME b) { return a.re == b.re && a.im == b.im; }
__device__ __forceinline__ bool operator!=(NAME a, NAME b) { return !(a == b); }
"""


def _complex(name: str, part: str, align: int, mark: str, digits: int) -> dict[str, str]:
    """The texts of a type of complex numbers, and of those functions that are called where the type is named."""
    words = {"NAME": name, "TYPE": part, "ALIGN": str(align), "MARK": mark, "LARGE": f"1e{digits}{mark}",
             "SMALL": f"1e-{digits}{mark}", "QUALIFIER": "__device__ __forceinline__"}
    texts = {name: _COMPLEX, **{f"{name} & {function}": text for function, text in COMPLEX_FUNCTIONS.items()}}
    return {key: filled(text, words) for key, text in texts.items()}


#: A tensor map as a parameter; NVRTC does without the header of the driver.
_TENSOR_MAP = """
#ifdef __CUDACC_RTC__
struct __align__(64) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif
"""

_RSQRT_NORMAL = """
// rsqrtf of a number that is not subnormal, for which it would test, and scale: the same bits
__device__ __forceinline__ float rsqrt_normal_f32(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
"""

_EXP2_FTZ = """
// 2**x in one instruction, and 0 where that is subnormal
__device__ __forceinline__ float exp2_ftz(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
"""

#: The instructions that convert floats of 8 bits, two at once.
_EIGHT_BITS = ("""#if __CUDA_ARCH__ >= 890
    float result;
    asm("{ .reg .b32 both; .reg .b16 low, high; cvt.rn.f16x2.CODEx2 both, %1; mov.b32 {low, high}, both; "
        "cvt.f32.f16 %0, low; }" : "=f"(result) : "h"((unsigned short)x));
    return result;
#else
""", """#if __CUDA_ARCH__ >= 890
    unsigned short both;
    asm("cvt.rn.satfinite.CODEx2.f32 %0, %1, %2;" : "=h"(both) : "f"(0.0f), "f"(x));
    return (DTYPE)both;
#else
""", "#endif\n")

#: Bessel functions, which CUDA C++ has for orders from 0.
_BESSEL = {f"bessel_{name}_{suffix}": f"""
__device__ __forceinline__ {real} bessel_{name}_{suffix}(int order, {real} x)
{{
    const {real} value = {name}{mark}(order < 0 ? -order : order, x);
    return order < 0 && order % 2 != 0 ? -value : value;
}}
""" for name in ("jn", "yn") for suffix, real, mark in (("f64", "double", ""), ("f32", "float", "f"))}

#: CUDA C++ in device code; without halves, NVRTC needs no header for anything here. NVIDIA's compiler treats memory
#: behind a const and __restrict__ pointer as constant, even where that is wrong (observed with NVRTC 13.0 and 13.5).
CUDA = Dialect(
    {**INTEGERS, **REALS, "bool": "bool", "float16": "__half", "bfloat16": "__nv_bfloat16",
     **{name: name for name in EIGHT_BIT_TYPES}, "complex64": "complex64", "complex128": "complex128"},
    Functions("__device__ __forceinline__", int_predicates=False, normal={"rsqrt_normal_f32": _RSQRT_NORMAL}, names={
        "abs_i32": "abs", "abs_i64": "llabs",
        **{f"{which}_{kind}{bits}": which for which in ("min", "max") for kind in "iu" for bits in (32, 64)}}, texts={
        **RANDOM_CALLS,
        "bessel_jn": {"int32, float64": "bessel_jn_f64", "int32, float32": "bessel_jn_f32"},
        "bessel_yn": {"int32, float64": "bessel_yn_f64", "int32, float32": "bessel_yn_f32"},
        "ldexp": {"float64, int32": "ldexp", "float32, int32": "ldexpf"}, "tf32": "tf32",
        "exp2_ftz": "exp2_ftz",
        "popcount": {"int32": "__popc", "uint32": "__popc", "int64": "__popcll", "uint64": "__popcll"},
        "clz": {"int32": "__clz", "uint32": "__clz", "int64": "__clzll", "uint64": "__clzll"}}),
    Syntax("cuda", truth=("false", "true"), restrict="__restrict__", constant_by_restrict=True,
           unroll=("#pragma unroll",), constant="static __constant__ const"),
    {"__half": "#include <cuda_fp16.h>", "__nv_bfloat16": "#include <cuda_bf16.h>",
     **EIGHT_BIT_TYPES, **conversions(
         {"QUALIFIER": "__device__ __forceinline__", "UINT": "unsigned int", "AS_UINT": "__float_as_uint",
          "AS_FLOAT": "__uint_as_float"}, instructions=_EIGHT_BITS),
     "INFINITY": "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif",
     "NAN": "#ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif",
     "CUtensorMap": _TENSOR_MAP, **CUDA_HELPERS,
     **_complex("complex64", "float", 8, "f", 37), **_complex("complex128", "double", 16, "", 307),
     "exp2_ftz": _EXP2_FTZ, **_BESSEL, **random_texts("__device__ __forceinline__", INTEGERS),
     "load_evict_last": _EVICT_LAST},
    overloaded=True,
    halves={"abs": "__habs", "fabs": "__habs", "min": "__hmin", "max": "__hmax", "fmin": "__hmin", "fmax": "__hmax",
            "floor": "hfloor", "ceil": "hceil", "trunc": "htrunc", "round": "hrint", "rint": "hrint"},
    policies={CachePolicy.STREAMING: "__stcs", CachePolicy.EVICT_LAST: "load_evict_last"}, instructions=CUDA_TEXTS)

_EXTREMA = {"i32": "", "i64": "<long long>", "u32": "<unsigned int>", "u64": "<unsigned long long>"}

#: C++ of the host beside CUDA's device code; helpers have no qualifier.
HOST = replace(CUDA, instructions={}, functions=Functions(int_predicates=False, names={
    f"{which}_{suffix}": f"std::{which}{of}" for which in ("min", "max") for suffix, of in _EXTREMA.items()}))
