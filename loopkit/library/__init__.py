"""Ready pipelines: kernels written as formulas and mapped to a GPU or the host by public transformations."""
from __future__ import annotations

from loopkit.library.attention import attention as attention
from loopkit.library.attention_backward import attention_backward as attention_backward
from loopkit.library.convolution import conv2d as conv2d
from loopkit.library.cpu import cpu_csr_matvec as cpu_csr_matvec
from loopkit.library.cpu import cpu_matmul as cpu_matmul
from loopkit.library.cpu import cpu_softmax as cpu_softmax
from loopkit.library.cpu import cpu_stencil_2d as cpu_stencil_2d
from loopkit.library.elementwise import add as add
from loopkit.library.elementwise import axpy as axpy
from loopkit.library.elementwise import copy as copy
from loopkit.library.elementwise import transpose as transpose
from loopkit.library.grouped import grouped_matmul as grouped_matmul
from loopkit.library.packed import packed_attention as packed_attention
from loopkit.library.pairs import nbody as nbody
from loopkit.library.pairs import nbody_direct as nbody_direct
from loopkit.library.products import batched_matmul as batched_matmul
from loopkit.library.products import matmul as matmul
from loopkit.library.rows import layer_norm as layer_norm
from loopkit.library.rows import softmax as softmax
from loopkit.library.scans import row_scan as row_scan
from loopkit.library.scans import scan as scan
from loopkit.library.scans import scan_in_launches as scan_in_launches
from loopkit.library.sparse import csr_matvec as csr_matvec
from loopkit.library.sparse import csr_pieces as csr_pieces
from loopkit.library.stencils import jacobi as jacobi
from loopkit.library.stencils import stencil_2d as stencil_2d
from loopkit.library.stencils import stencil_3d as stencil_3d
from loopkit.library.sums import column_sum as column_sum
from loopkit.library.sums import full_sum as full_sum
from loopkit.library.sums import histogram as histogram
from loopkit.library.sums import row_sum as row_sum
