"""Complex numbers for CUDA C++, which lacks them: a type of two parts, its operators and functions."""
from __future__ import annotations

_TEXT = """
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
__device__ __forceinline__ NAME operator-(NAME a, TYPE b) { return NAME(a.re - b, a.im); }
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
__device__ __forceinline__ NAME operator/(TYPE a, NAME b) { return NAME(a) / b; }
__device__ __forceinline__ bool operator==(NAME a, NAME b) { return a.re == b.re && a.im == b.im; }
__device__ __forceinline__ bool operator==(NAME a, TYPE b) { return a.re == b && a.im == 0; }
__device__ __forceinline__ bool operator==(TYPE a, NAME b) { return b == a; }
__device__ __forceinline__ bool operator!=(NAME a, NAME b) { return !(a == b); }
__device__ __forceinline__ bool operator!=(NAME a, TYPE b) { return !(a == b); }
__device__ __forceinline__ bool operator!=(TYPE a, NAME b) { return !(b == a); }
__device__ __forceinline__ TYPE creal(NAME z) { return z.re; }
__device__ __forceinline__ TYPE cimag(NAME z) { return z.im; }
__device__ __forceinline__ TYPE cabs(NAME z) { return hypotMARK(z.re, z.im); }
__device__ __forceinline__ NAME conj(NAME z) { return NAME(z.re, -z.im); }
__device__ __forceinline__ NAME cexp(NAME z)
{
    // two factors, of which neither overflows before the result does
    const TYPE size = expMARK(z.re / 2);
    return z.im == 0 ? NAME(expMARK(z.re), z.im) : NAME(size*cosMARK(z.im)*size, size*sinMARK(z.im)*size);
}
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
__device__ __forceinline__ NAME ctanh(NAME z)
{
    const TYPE t = tanhMARK(z.re), u = tanMARK(z.im);
    return NAME(t, u) / NAME(1, t*u);
}
__device__ __forceinline__ NAME csin(NAME z)
{
    const NAME w = csinh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
__device__ __forceinline__ NAME ccos(NAME z)
{
    return ccosh(NAME(-z.im, z.re));
}
__device__ __forceinline__ NAME ctan(NAME z)
{
    const NAME w = ctanh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
__device__ __forceinline__ NAME cpow(NAME a, NAME b)
{
    if (b.re == 0 && b.im == 0)
        return NAME(1, 0);
    if (a.re == 0 && a.im == 0)             // 0, and nothing where it would be infinite in no direction
        return b.re > 0 ? NAME(0, 0) : NAME(a.re / a.re, a.re / a.re);
    return cexp(b*clog(a));
}
"""


def cuda_complex(name: str, part: str, align: int, mark: str, digits: int) -> str:
    """The type *name* of two numbers of the type *part*, whose functions end in *mark*.

    :arg align: bytes.
    :arg digits: numbers from ``1e-digits`` to ``1e+digits`` are computed without scaling.
    """
    return (_TEXT.replace("NAME", name).replace("TYPE", part).replace("ALIGN", str(align))
            .replace("MARK", mark).replace("LARGE", f"1e{digits}{mark}").replace("SMALL", f"1e-{digits}{mark}"))
