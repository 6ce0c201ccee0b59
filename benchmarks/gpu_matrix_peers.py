"""What others offer for the rows of the matrix units: cuBLAS and cuDNN through torch, torch.compile, Triton.

A peer is a function from a problem to its run, as in ``gpu_peers``. A layout has ``"t"`` for each of the two operands
that is stored transposed, else ``"n"``.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gpu_peers import Peer, Run

#: Peers that compile for seconds, and those that are never the best; quick runs leave them out.
SLOW = ("torch.compile", "Triton", "Triton, mma.sync", "FlashAttention-2", "cuBLAS in turn")


def operands(p: Any, layout: str) -> tuple[Any, Any]:
    return p.a.T if layout[0] == "t" else p.a, p.b.T if layout[1] == "t" else p.b


# Products


def cublas(layout: str) -> Peer:
    def peer(p: Any) -> Run:
        import torch
        a, b = operands(p, layout)
        return lambda: torch.mm(a, b, out=p.c)
    return peer


def tf32(layout: str) -> Peer:
    def peer(p: Any) -> Run:
        import torch
        a, b = operands(p, layout)
        how = torch.backends.cuda.matmul

        def run() -> None:
            how.allow_tf32 = True
            torch.mm(a, b, out=p.c)
            how.allow_tf32 = False
        return run
    return peer


def int8(layout: str) -> Peer:
    def peer(p: Any) -> Run:
        import torch
        a, b = operands(p, layout)
        return lambda: torch._int_mm(a, b, out=p.c)  # noqa: SLF001
    return peer


def unscaled(p: Any) -> Run:
    """One scale, of 1, for each matrix."""
    import torch
    one = torch.ones((), dtype=torch.float32, device=p.a.device)
    return lambda: torch._scaled_mm(p.a, p.b.T, one, one, out_dtype=p.c.dtype, use_fast_accum=True)  # noqa: SLF001


def scaled(p: Any) -> Run:
    import torch
    rows, columns = p.row_scale[:, None], p.column_scale[None, :]
    return lambda: torch._scaled_mm(p.a, p.b.T, rows, columns, out_dtype=p.c.dtype,  # noqa: SLF001
                                    use_fast_accum=True)


def batched(p: Any) -> Run:
    import torch
    return lambda: torch.bmm(p.a, p.b, out=p.c)


def grouped(p: Any) -> Run:
    import torch
    b = p.b.transpose(-2, -1)
    return lambda: torch._grouped_mm(p.a, b, offs=p.ends)  # noqa: SLF001


def grouped_in_turn(p: Any) -> Run:
    import torch
    stops = p.ends.tolist()
    each = [(p.a[start:stop], b.T, p.c[start:stop]) for start, stop, b in zip([0, *stops], stops, p.b, strict=False)]

    def run() -> None:
        for a, b, c in each:
            torch.mm(a, b, out=c)
    return run


def triton_product(name: str, layout: str) -> Peer:
    """The function *name* of ``gpu_triton_matrix``."""
    def peer(p: Any) -> Run:
        import gpu_triton_matrix
        run: Run = getattr(gpu_triton_matrix, name)(*operands(p, layout), p.c)
        return run
    return peer

# Products with formulas of their elements


def _bias(a: Any, b: Any, bias: Any) -> Any:
    import torch
    return torch.addmm(bias, a, b)


def _gelu(a: Any, b: Any, bias: Any) -> Any:
    import torch
    return torch.nn.functional.gelu(torch.addmm(bias, a, b))


def _silu(a: Any, b: Any) -> Any:
    import torch
    return torch.nn.functional.silu(a @ b)


def _residual(a: Any, b: Any, residual: Any) -> Any:
    import torch
    return torch.addmm(residual, a, b)


def _row_scale(a: Any, b: Any, scale: Any) -> Any:
    return (a @ b)*scale[:, None]


FORMULAS: dict[str, Callable[..., Any]] = {
    "bias": _bias, "gelu": _gelu, "silu": _silu, "residual": _residual, "row_scale": _row_scale}


def eager(name: str, arrays: Sequence[str]) -> Peer:
    """:arg arrays: names of the arguments."""
    return lambda p: lambda: FORMULAS[name](*(getattr(p, x) for x in arrays))


def max_autotuned(name: str, arrays: Sequence[str]) -> Peer:
    def peer(p: Any) -> Run:
        f = _compiled(FORMULAS[name], "max-autotune-no-cudagraphs")
        return lambda: f(*(getattr(p, x) for x in arrays))
    return peer


@cache
def _compiled(function: Callable[..., Any], mode: str | None = None) -> Callable[..., Any]:
    """Compiled for each shape anew."""
    import torch
    from torch._dynamo import config
    config.recompile_limit = 256
    return torch.compile(function, dynamic=False, mode=mode)

# Attention


def attention(backend: str, mask: str) -> Peer:
    """:arg backend: the name of one of torch's."""
    def peer(p: Any) -> Run:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
        chosen = getattr(SDPBackend, backend)
        options = {"is_causal": mask == "causal", "attn_mask": p.inputs.get("bias"),
                   "enable_gqa": p.q.shape[1] != p.k.shape[1]}

        def run() -> Any:
            with sdpa_kernel(chosen):
                return scaled_dot_product_attention(p.q, p.k, p.v, **options)
        return run
    return peer


def attention_backward(backend: str, mask: str) -> Peer:
    """Only the gradients are timed."""
    def peer(p: Any) -> Run:
        import torch
        inputs = [x.detach().requires_grad_() for x in (p.q, p.k, p.v)]
        from torch.nn.attention import SDPBackend, sdpa_kernel
        with sdpa_kernel(getattr(SDPBackend, backend)):
            o = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=mask == "causal")
        return lambda: torch.autograd.grad(o, inputs, p.go, retain_graph=True)
    return peer


def flex(mask: Callable[[Any, Any, Any], Any] | None, cap: float | None = None) -> Peer:
    """torch's attention by formulas, which it compiles for Triton."""
    def peer(p: Any) -> Run:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        length = p.q.shape[2]
        blocks = None if mask is None else create_block_mask(
            lambda b, h, i, j: mask(p, i, j), None, None, length, length, device=p.q.device)

        def capped(x: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return cap*torch.tanh(x/cap)
        f = _compiled(flex_attention)
        return lambda: f(p.q, p.k, p.v, score_mod=capped if cap else None, block_mask=blocks)
    return peer


def varlen(p: Any) -> Run:
    """The sequences one after the other in one array."""
    from torch.nn.attention.varlen import varlen_attn
    q, k, v = (x[0].transpose(0, 1) for x in (p.q, p.k, p.v))
    longest = int((p.starts[1:] - p.starts[:-1]).max())

    def run() -> Any:
        o = varlen_attn(q, k, v, p.starts, p.starts, longest, longest, **causal)
        return o.transpose(0, 1)[None]
    causal = _causal(varlen_attn)
    return run


def _causal(function: Callable[..., Any]) -> dict[str, Any]:
    """torch has changed the name of the option."""
    import inspect
    return {"window_size": (-1, 0)} if "window_size" in inspect.signature(function).parameters else {"is_causal": True}

# Convolution


def convolution(p: Any) -> Run:
    """Of arrays whose channels are last, by the fastest of cuDNN's kernels."""
    import torch
    torch.backends.cudnn.benchmark = True
    stride, dilation = p.size[5:]
    x, w = p.x.permute(0, 3, 1, 2), p.w.permute(0, 3, 1, 2)
    return lambda: torch.conv2d(x, w, None, stride, dilation, dilation).permute(0, 2, 3, 1)
