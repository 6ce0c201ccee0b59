"""Helper functions of generated texts, as templates: functions that C lacks or defines differently.

``TYPE`` stands for the type, ``NAME`` for the helper's whole name, ``MARK`` for the ``f`` of a float32 function,
``QUALIFIER`` for the dialect's qualifier.
"""
from __future__ import annotations

import re
from collections.abc import Mapping

#: The name of a helper that multiplies.
POWER = re.compile(r"power(?P<exponent>\d+)$")


_INTEGER: Mapping[str, str] = {
    "floor_div": """
QUALIFIER TYPE NAME(TYPE a, TYPE b)
{
    const TYPE q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
""",
    "floor_mod": """
QUALIFIER TYPE NAME(TYPE a, TYPE b)
{
    const TYPE r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
""",
    "int_power": """
QUALIFIER TYPE NAME(TYPE x, int n)
{
    TYPE result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1)
            result *= x;
    return result;
}
""",
    "abs": """
QUALIFIER TYPE NAME(TYPE x)
{
    return x < 0 ? -x : x;
}
""",
    "min": """
QUALIFIER TYPE NAME(TYPE a, TYPE b)
{
    return b < a ? b : a;
}
""",
    "max": """
QUALIFIER TYPE NAME(TYPE a, TYPE b)
{
    return a < b ? b : a;
}
"""}

_REAL: Mapping[str, str] = {
    "floor_mod": """
QUALIFIER TYPE NAME(TYPE a, TYPE b)
{
    const TYPE r = fmodMARK(a, b);
    if (r == 0)
        return copysignMARK(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
""",
    "floor_div": """
QUALIFIER TYPE NAME(TYPE a, TYPE b)
{
    if (b == 0)
        return a / b;
    // the quotient of what b divides is exact; infinite b divide nothing but 0
    const TYPE r = fmodMARK(a, b);
    const TYPE q = (a - r) / b - (r != 0 && (r < 0) != (b < 0));
    return q == 0 ? copysignMARK(q, a / b) : rintMARK(q);
}
""",
    "rsqrt": """
QUALIFIER TYPE NAME(TYPE x)
{
    return 1 / sqrtMARK(x);
}
""",
    "rsqrt_normal": """
// rsqrtf of a number that is not subnormal, for which it would test, and scale: the same bits
QUALIFIER TYPE NAME(TYPE x)
{
    TYPE result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
""",
    "exp10": """
QUALIFIER TYPE NAME(TYPE x)
{
    return powMARK(10, x);
}
""",
    "sinpi": """
QUALIFIER TYPE NAME(TYPE x)
{
    const TYPE r = fmodMARK(x, 2);
    return sinMARK((TYPE)3.141592653589793*r);
}
""",
    "cospi": """
QUALIFIER TYPE NAME(TYPE x)
{
    const TYPE r = fmodMARK(x, 2);
    return cosMARK((TYPE)3.141592653589793*r);
}
"""}

_ANY: Mapping[str, str] = {
    "power": """
QUALIFIER TYPE NAME(TYPE x)
{
    return PRODUCT;
}
"""}


def template(name: str, kind: str) -> str:
    """The text of the helper *name* for dtypes of numpy's *kind*."""
    if POWER.match(name):
        return _ANY["power"]
    return (_REAL if kind == "f" else _INTEGER)[name]
