"""Functions of complex numbers for languages that lack them, as templates."""
from __future__ import annotations

import re
from collections.abc import Mapping

#: The division of ``a`` by ``b`` in a function with the name ``DIVIDE``; the other words are those of functions.
DIVISION = """
// divides by the larger part of b first, so that nothing overflows on the way
QUALIFIER NAME DIVIDE(NAME a, NAME b)
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
"""

#: The functions by name; those that others call come first. A text has the type ``NAME`` of two numbers ``re`` and
#: ``im`` of a ``TYPE``, whose functions end in ``MARK``. Numbers from ``SMALL`` to ``LARGE`` need no scaling.
COMPLEX_FUNCTIONS = {
    "creal": "QUALIFIER TYPE creal(NAME z) { return z.re; }",
    "cimag": "QUALIFIER TYPE cimag(NAME z) { return z.im; }",
    "cabs": "QUALIFIER TYPE cabs(NAME z) { return hypotMARK(z.re, z.im); }",
    "conj": "QUALIFIER NAME conj(NAME z) { return NAME(z.re, -z.im); }",
    "cexp": """
QUALIFIER NAME cexp(NAME z)
{
    // two factors, of which neither overflows before the result does
    const TYPE size = expMARK(z.re / 2);
    return z.im == 0 ? NAME(expMARK(z.re), z.im) : NAME(size*cosMARK(z.im)*size, size*sinMARK(z.im)*size);
}
""",
    "clog": """
QUALIFIER NAME clog(NAME z)
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
QUALIFIER NAME csqrt(NAME z)
{
    if (z.re == 0 && z.im == 0)
        return NAME(0, z.im);
    const TYPE size = fmaxMARK(fabsMARK(z.re), fabsMARK(z.im));
    if (isinf(z.im))
        return NAME(fabsMARK(z.im), z.im);
    // by a power of 4, so that nothing overflows or is lost on the way
    const TYPE scale = size > LARGE ? 4 : size < SMALL ? (TYPE)5.551115123125783e-17 : 1;
    z = z / scale;
    const TYPE larger = sqrtMARK((fabsMARK(z.re) + cabs(z)) / 2), smaller = fabsMARK(z.im) / (2*larger);
    const NAME root = NAME(z.re >= 0 ? larger : smaller, copysignMARK(z.re >= 0 ? smaller : larger, z.im));
    return root*sqrtMARK(scale);
}
""",
    "csinh": """
QUALIFIER NAME csinh(NAME z)
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
QUALIFIER NAME ccosh(NAME z)
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
QUALIFIER NAME ctanh(NAME z)
{
    const TYPE t = tanhMARK(z.re), u = tanMARK(z.im);
    return NAME(t, u) / NAME(1, t*u);
}
""",
    "csin": """
QUALIFIER NAME csin(NAME z)
{
    const NAME w = csinh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    "ccos": """
QUALIFIER NAME ccos(NAME z)
{
    return ccosh(NAME(-z.im, z.re));
}
""",
    "ctan": """
QUALIFIER NAME ctan(NAME z)
{
    const NAME w = ctanh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    # after W. Kahan, "Branch cuts for complex elementary functions", 1987
    "casin": """
QUALIFIER NAME casin(NAME z)
{
    const NAME a = csqrt(NAME(1 - z.re, -z.im)), b = csqrt(NAME(1 + z.re, z.im));
    return NAME(atan2MARK(z.re, a.re*b.re - a.im*b.im), asinhMARK(a.re*b.im - a.im*b.re));
}
""",
    "cacos": """
QUALIFIER NAME cacos(NAME z)
{
    const NAME a = csqrt(NAME(1 - z.re, -z.im)), b = csqrt(NAME(1 + z.re, z.im));
    return NAME(2*atan2MARK(a.re, b.re), asinhMARK(b.re*a.im - b.im*a.re));
}
""",
    "cacosh": """
QUALIFIER NAME cacosh(NAME z)
{
    const NAME a = csqrt(NAME(z.re - 1, z.im)), b = csqrt(NAME(z.re + 1, z.im));
    return NAME(asinhMARK(a.re*b.re + a.im*b.im), 2*atan2MARK(a.im, b.re));
}
""",
    "casinh": """
QUALIFIER NAME casinh(NAME z)
{
    const NAME w = casin(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    "catanh": """
QUALIFIER NAME catanh(NAME z)
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
QUALIFIER NAME catan(NAME z)
{
    const NAME w = catanh(NAME(-z.im, z.re));
    return NAME(w.im, -w.re);
}
""",
    "cpow": """
QUALIFIER NAME cpow(NAME a, NAME b)
{
    if (b.re == 0 && b.im == 0)
        return NAME(1, 0);
    if (a.re == 0 && a.im == 0)             // 0, and nothing where it would be infinite in no direction
        return b.re > 0 ? NAME(0, 0) : NAME(a.re / a.re, a.re / a.re);
    return cexp(b*clog(a));
}
"""}


def filled(template: str, words: Mapping[str, str]) -> str:
    """*template* with *words* in the places of their keys."""
    return re.sub("|".join(words), lambda found: words[found[0]], template)
