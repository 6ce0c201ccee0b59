"""CUDA C++ as a table, for device code and for the host; NVRTC needs headers for halves only."""
from __future__ import annotations

from dataclasses import replace

from loopkit.instructions.table import CUDA_HELPERS, CUDA_TEXTS
from loopkit.kernel.data import CachePolicy
from loopkit.target.c.dialect import INTEGERS, REALS, Dialect, Functions, Syntax
from loopkit.target.cuda.complex import cuda_complex

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

#: CUDA C++ in device code; without halves, NVRTC needs no header for anything here.
CUDA = Dialect(
    {**INTEGERS, **REALS, "bool": "bool", "float16": "__half", "bfloat16": "__nv_bfloat16", "complex64": "complex64",
     "complex128": "complex128"},
    Functions("__device__ __forceinline__", int_predicates=False, normal=frozenset({"rsqrt_normal_f32"}), integer={
        "abs_i32": "abs", "abs_i64": "llabs",
        **{f"{which}_{kind}{bits}": which for which in ("min", "max") for kind in "iu" for bits in (32, 64)}}),
    Syntax(truth=("false", "true"), restrict="__restrict__", constant_by_restrict=True, unroll=("#pragma unroll",)),
    {"__half": "#include <cuda_fp16.h>", "__nv_bfloat16": "#include <cuda_bf16.h>",
     "INFINITY": "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#endif",
     "NAN": "#ifndef NAN\n#define NAN __int_as_float(0x7fffffff)\n#endif",
     **CUDA_HELPERS, "complex64": cuda_complex("complex64", "float", 8, "f", 37),
     "complex128": cuda_complex("complex128", "double", 16, "", 307), "load_evict_last": _EVICT_LAST},
    overloaded=True,
    halves={"abs": "__habs", "fabs": "__habs", "min": "__hmin", "max": "__hmax", "fmin": "__hmin", "fmax": "__hmax",
            "floor": "hfloor", "ceil": "hceil", "trunc": "htrunc", "round": "hrint", "rint": "hrint"},
    policies={CachePolicy.STREAMING: "__stcs", CachePolicy.EVICT_LAST: "load_evict_last"}, instructions=CUDA_TEXTS)

_EXTREMA = {"i32": "", "i64": "<long long>", "u32": "<unsigned int>", "u64": "<unsigned long long>"}

#: C++ of the host beside CUDA's device code; helpers have no qualifier.
HOST = replace(CUDA, instructions={}, functions=Functions(int_predicates=False, integer={
    f"{which}_{suffix}": f"std::{which}{of}" for which in ("min", "max") for suffix, of in _EXTREMA.items()}))
