"""Sums over all other bodies."""
from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loopkit.kernel.kernel import LoopKernel
from loopkit.language.make import make_kernel
from loopkit.library.defaults import THREADS, checked
from loopkit.transform.data import add_dtypes
from loopkit.transform.iname import split_iname
from loopkit.transform.prefetch import add_prefetch


def nbody(dtype: npt.DTypeLike = np.float32, *, softening: float = 0.01, threads: int = THREADS, unroll: int = 16
          ) -> LoopKernel:
    """``phi[i] = sum(j, q[j]/sqrt(|r[j] - r[i]|**2 + softening))``, the potential at bodies at ``x, y, z``.

    Each thread has a body. The others come past in tiles that the block copies to shared memory, so that a body is
    loaded once for all threads of a block; of a tile all threads read the same body at once.

    :arg softening: keeps a body's own term finite.
    :arg threads: of a block, and bodies of a tile.
    :arg unroll: bodies that are one piece of code.

    >>> x, zeros, q = np.array([0, 3], np.float32), np.zeros(2, np.float32), np.array([1, 6], np.float32)
    >>> lk.library.nbody(softening=16)(x=x, y=zeros, z=zeros, q=q).phi
    array([1.45, 1.7 ], dtype=float32)
    """
    eps = float(softening)
    knl = make_kernel("{[i, j]: 0<=i,j<n}", f"""
        for i
            <> xi = x[i]
            <> yi = y[i]
            <> zi = z[i]
            phi[i] = sum(j, q[j]*rsqrt((x[j] - xi)**2 + (y[j] - yi)**2 + (z[j] - zi)**2 + {eps!r}))  {{id=phi}}
        end
        """, name="nbody")
    knl = add_dtypes(knl, {"x,y,z,q,phi": checked(dtype)})
    knl = split_iname(knl, "i", threads, outer_tag="g.0", inner_tag="l.0")
    knl = split_iname(knl, "j", threads)
    for name in "xyzq":
        knl = add_prefetch(knl, name, ["j_inner"], within="phi", temporary_name=f"{name}_tile")
    return split_iname(knl, "j_inner", unroll, outer_iname="j_group", inner_iname="j_item", inner_tag="unr")
