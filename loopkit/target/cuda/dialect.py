"""CUDA C++ as a table, for device code and for the host; NVRTC needs headers for halves only."""
from __future__ import annotations

import re
from dataclasses import replace

from loopkit.instructions.table import CUDA_HELPERS, CUDA_TEXTS
from loopkit.kernel.data import CachePolicy
from loopkit.target.c.dialect import INTEGERS, REALS, Dialect, Functions, Syntax

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
__device__ __forceinline__ NAME operator/(NAME a, TYPE b) { return NAME(a.re / b, a.im / b); }
// divides by the larger part of b first, so that nothing overflows on the way
__device__ __forceinline__ NAME operator/(NAME a, NAME b)
{
    if (b.re == 0 && b.im == 0)
        return NAME(a.re / fabsMARK(b.re), a.im / fabsMARK(b.re));
    if (fabsMARK(b.re) >= fabsMARK(b.im)) {
        const TYPE ratio = b.im / b.re, scale = b.re + b.im*ratio;
        return NAME((a.re + a.im*ratio) / scale, (a.im - a.re*ratio) / scale);
    }
    const TYPE ratio = b.re / b.im, scale = b.re*ratio + b.im;
    return NAME((a.re*ratio + a.im) / scale, (a.im*ratio - a.re) / scale);
}
__device__ __forceinline__ bool operator==(NAME a, NAME b) { return a.re == b.re && a.im == b.im; }
__device__ __forceinline__ bool operator!=(NAME a, NAME b) { return !(a == b); }
"""

#: The functions of these numbers by name; those that others call come first. A function computes with numbers from
#: SMALL to LARGE without scaling.
_COMPLEX_FUNCTIONS = {
    "creal": "__device__ __forceinline__ TYPE creal(NAME z) { return z.re; }",
    "cimag": "__device__ __forceinline__ TYPE cimag(NAME z) { return z.im; }",
    "cabs": "__device__ __forceinline__ TYPE cabs(NAME z) { return hypotMARK(z.re, z.im); }",
    "conj": "__device__ __forceinline__ NAME conj(NAME z) { return NAME(z.re, -z.im); }",
    "cexp": """
__device__ __forceinline__ NAME cexp(NAME z)
{
    // two factors, of which neither overflows before the result does
    const TYPE size = expMARK(z.re / 2);
    return z.im == 0 ? NAME(expMARK(z.re), z.im) : NAME(size*cosMARK(z.im)*size, size*sinMARK(z.im)*size);
}
""",
    "clog": """
__device__ __forceinline__ NAME clog(NAME z)
{
    const TYPE a = fmaxMARK(fabsMARK(z.re), fabsMARK(z.im)), b = fminMARK(fabsMARK(z.re), fabsMARK(z.im));
    const TYPE angle = atan2MARK(z.im, z.re);
    // near 1 the logarithm of the size has few digits of the result
    if (a > (TYPE)0.5 && fabsMARK(z.re) < 2 && fabsMARK(z.im) < 2)
        return NAME(log1pMARK((a - 1)*(a + 1) + b*b) / 2, angle);
    if (a > LARGE)                          // the size may overflow
        return NAME(logMARK(cabs(z / 2)) + (TYPE)0.6931471805599453, angle);
    return NAME(logMARK(cabs(z)), angle);
}
""",
    "csqrt": """
__device__ __forceinline__ NAME csqrt(NAME z)
{
    if (z.re == 0 && z.im == 0)
        return NAME(0, z.im);
    const TYPE size = fmaxMARK(fabsMARK(z.re), fabsMARK(z.im));
    if (isinf(z.im))
        return NAME(fabsMARK(z.im), z.im);
    // by a power of 4, so that nothing overflows or is lost on the way
    const TYPE scale = size > LARGE ? 4 : size < SMALL ? (TYPE)5.551115123125783e-17 : 1;
    z = z / scale;
    const TYPE half = sqrtMARK((fabsMARK(z.re) + cabs(z)) / 2), other = fabsMARK(z.im) / (2*half);
    const NAME root = z.re >= 0 ? NAME(half, copysignMARK(other, z.im)) : NAME(other, copysignMARK(half, z.im));
    return root*sqrtMARK(scale);
}
""",
    "csinh": """
__device__ __forceinline__ NAME csinh(NAME z)
{
    if (z.im == 0)
        return NAME(sinhMARK(z.re), z.im);
    if (z.re == 0)
        return NAME(z.re, sinMARK(z.im));
    if (fabsMARK(z.re) > 40) {              // half of an exponential
        const NAME w = cexp(NAME(fabsMARK(z.re) / 2, z.im))*(expMARK(fabsMARK(z.re) / 2) / 2);
        return NAME(copysignMARK((TYPE)1, z.re)*w.re, w.im);
    }
    return NAME(sinhMARK(z.re)*cosMARK(z.im), coshMARK(z.re)*sinMARK(z.im));
}
""",
    "ccosh": """
__device__ __forceinline__ NAME ccosh(NAME z)
{
    if (z.im == 0)
        return NAME(coshMARK(z.re), copysignMARK((TYPE)1, z.re)*z.im);
    if (z.re == 0)
        return NAME(cosMARK(z.im), z.re*sinMARK(z.im));
    if (fabsMARK(z.re) > 40) {
        const NAME w = cexp(NAME(fabsMARK(z.re) / 2, z.im))*(expMARK(fabsMARK(z.re) / 2) / 2);
        return NAME(w.re, copysignMARK((TYPE)1, z.re)*w.im);
    }
    return NAME(coshMARK(z.re)*cosMARK(z.im), sinhMARK(z.re)*sinMARK(z.im));
}
""",
    "ctanh": """
__device__ __forceinline__ NAME ctanh(NAME z)
{
    const TYPE t = tanhMARK(z.re), u = tanMARK(z.im);
    return NAME(t, u) / NAME(1, t*u);
}
""",
    "csin": """
__device__ __forceinline__ NAME csin(NAME z)
{
    const NAME w = csinh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    "ccos": """
__device__ __forceinline__ NAME ccos(NAME z)
{
    return ccosh(NAME(-z.im, z.re));
}
""",
    "ctan": """
__device__ __forceinline__ NAME ctan(NAME z)
{
    const NAME w = ctanh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    # after W. Kahan, "Branch cuts for complex elementary functions", 1987
    "casin": """
__device__ __forceinline__ NAME casin(NAME z)
{
    const NAME a = csqrt(NAME(1 - z.re, -z.im)), b = csqrt(NAME(1 + z.re, z.im));
    return NAME(atan2MARK(z.re, a.re*b.re - a.im*b.im), asinhMARK(a.re*b.im - a.im*b.re));
}
""",
    "cacos": """
__device__ __forceinline__ NAME cacos(NAME z)
{
    const NAME a = csqrt(NAME(1 - z.re, -z.im)), b = csqrt(NAME(1 + z.re, z.im));
    return NAME(2*atan2MARK(a.re, b.re), asinhMARK(b.re*a.im - b.im*a.re));
}
""",
    "cacosh": """
__device__ __forceinline__ NAME cacosh(NAME z)
{
    const NAME a = csqrt(NAME(z.re - 1, z.im)), b = csqrt(NAME(z.re + 1, z.im));
    return NAME(asinhMARK(a.re*b.re + a.im*b.im), 2*atan2MARK(a.im, b.re));
}
""",
    "casinh": """
__device__ __forceinline__ NAME casinh(NAME z)
{
    const NAME w = casin(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    "catanh": """
__device__ __forceinline__ NAME catanh(NAME z)
{
    const TYPE x = fabsMARK(z.re), y = fabsMARK(z.im), quarter = (TYPE)1.5707963267948966;
    if (x > LARGE || y > LARGE) {           // 1/z, and a quarter of a circle
        const TYPE larger = fmaxMARK(x, y), smaller = fminMARK(x, y), ratio = isinf(larger) ? 0 : smaller / larger;
        const TYPE inverse = 1 / (larger*(1 + ratio*ratio));
        return NAME(copysignMARK(x >= y ? inverse : inverse*ratio, z.re), copysignMARK(quarter, z.im));
    }
    const TYPE size = log1pMARK(4*x / ((1 - x)*(1 - x) + y*y)) / 4;
    return NAME(copysignMARK(size, z.re), copysignMARK(atan2MARK(2*y, (1 - x)*(1 + x) - y*y) / 2, z.im));
}
""",
    "catan": """
__device__ __forceinline__ NAME catan(NAME z)
{
    const NAME w = catanh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    "cpow": """
__device__ __forceinline__ NAME cpow(NAME a, NAME b)
{
    if (b.re == 0 && b.im == 0)
        return NAME(1, 0);
    if (a.re == 0 && a.im == 0)             // 0, and nothing where it would be infinite in no direction
        return b.re > 0 ? NAME(0, 0) : NAME(a.re / a.re, a.re / a.re);
    return cexp(b*clog(a));
}
"""}


def _complex(name: str, part: str, align: int, mark: str, digits: int) -> dict[str, str]:
    """The texts of a type of complex numbers, and of those functions that are called where the type is named."""
    words = {"NAME": name, "TYPE": part, "ALIGN": str(align), "MARK": mark, "LARGE": f"1e{digits}{mark}",
             "SMALL": f"1e-{digits}{mark}"}
    texts = {name: _COMPLEX, **{f"{name} & {function}": text for function, text in _COMPLEX_FUNCTIONS.items()}}
    return {key: re.sub("|".join(words), lambda found: words[found[0]], text) for key, text in texts.items()}


_RSQRT_NORMAL = """
// rsqrtf of a number that is not subnormal, for which it would test, and scale: the same bits
__device__ __forceinline__ float rsqrt_normal_f32(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
"""

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
    {**INTEGERS, **REALS, "bool": "bool", "float16": "__half", "bfloat16": "__nv_bfloat16", "complex64": "complex64",
     "complex128": "complex128"},
    Functions("__device__ __forceinline__", int_predicates=False, normal={"rsqrt_normal_f32": _RSQRT_NORMAL}, integer={
        "abs_i32": "abs", "abs_i64": "llabs",
        **{f"{which}_{kind}{bits}": which for which in ("min", "max") for kind in "iu" for bits in (32, 64)}}, texts={
        "bessel_jn": {"int32, float64": "bessel_jn_f64", "int32, float32": "bessel_jn_f32"},
        "bessel_yn": {"int32, float64": "bessel_yn_f64", "int32, float32": "bessel_yn_f32"},
        "ldexp": {"float64, int32": "ldexp", "float32, int32": "ldexpf"},
        "popcount": {"int32": "__popc", "uint32": "__popc", "int64": "__popcll", "uint64": "__popcll"},
        "clz": {"int32": "__clz", "uint32": "__clz", "int64": "__clzll", "uint64": "__clzll"}}),
    Syntax("cuda", truth=("false", "true"), restrict="__restrict__", constant_by_restrict=True,
           unroll=("#pragma unroll",), constant="static __constant__ const"),
    {"__half": "#include <cuda_fp16.h>", "__nv_bfloat16": "#include <cuda_bf16.h>",
     "INFINITY": "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif",
     "NAN": "#ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif",
     **CUDA_HELPERS, **_complex("complex64", "float", 8, "f", 37), **_complex("complex128", "double", 16, "", 307),
     **_BESSEL, "load_evict_last": _EVICT_LAST},
    overloaded=True,
    halves={"abs": "__habs", "fabs": "__habs", "min": "__hmin", "max": "__hmax", "fmin": "__hmin", "fmax": "__hmax",
            "floor": "hfloor", "ceil": "hceil", "trunc": "htrunc", "round": "hrint", "rint": "hrint"},
    policies={CachePolicy.STREAMING: "__stcs", CachePolicy.EVICT_LAST: "load_evict_last"}, instructions=CUDA_TEXTS)

_EXTREMA = {"i32": "", "i64": "<long long>", "u32": "<unsigned int>", "u64": "<unsigned long long>"}

#: C++ of the host beside CUDA's device code; helpers have no qualifier.
HOST = replace(CUDA, instructions={}, functions=Functions(int_predicates=False, integer={
    f"{which}_{suffix}": f"std::{which}{of}" for which in ("min", "max") for suffix, of in _EXTREMA.items()}))
