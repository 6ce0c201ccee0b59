"""Bessel functions of whole order, for the interpreter: numpy has none."""
from __future__ import annotations

import math

import numpy as np


def bessel_j(order: int, x: float) -> float:
    """The Bessel function of the first kind: the mean of ``cos(order*t - x*sin(t))`` over a period.

    >>> round(bessel_j(0, 1.0), 12), round(bessel_j(-1, 2.5), 12)
    (0.765197686558, -0.497094102464)
    """
    if not math.isfinite(x):
        return 0.0 if math.isinf(x) else x
    # equal steps are exact for the harmonics below their number
    t = np.linspace(0, 2*np.pi, 64 + 2*(abs(order) + int(abs(x))), endpoint=False)
    return float(np.mean(np.cos(order*t - x*np.sin(t))))


def bessel_y(order: int, x: float) -> float:
    """The Bessel function of the second kind: Neumann's series of orders 0 and 1, then the recurrence.

    The series are numbers 9.1.88 and 9.1.89 in Abramowitz and Stegun's handbook.

    >>> round(bessel_y(0, 1.0), 12), round(bessel_y(3, 2.5), 12)
    (0.088256964216, -0.756055496754)
    """
    if not 0 < x < math.inf:
        return -math.inf if x == 0 else 0.0 if x == math.inf else math.nan
    terms = range(1, 24 + int(x))
    log = math.log(x/2) + float(np.euler_gamma)
    low = 2/np.pi*log*bessel_j(0, x) - 4/np.pi*sum((-1)**k*bessel_j(2*k, x)/k for k in terms)
    high = 2/np.pi*((log - 1)*bessel_j(1, x) - bessel_j(0, x)/x) - 2/np.pi*sum(
        (-1)**k*(2*k + 1)/(k*(k + 1))*bessel_j(2*k + 1, x) for k in terms)
    for n in range(1, abs(order)):
        low, high = high, 2*n/x*high - low
    return float(high if order else low) * ((-1)**order if order < 0 else 1)
