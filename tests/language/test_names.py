"""Names that kernels and arrays must not have: functions of C's headers, of CUDA, and of the generated texts."""
from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import loopkit as lk
from loopkit.errors import NameConflictError
from loopkit.instructions.base import made_text
from loopkit.language.names import LIBRARY, fault, require_kernel_name
from loopkit.runtime.compiler import BASE_FLAGS
from loopkit.target.c.target import C
from loopkit.target.cuda.dialect import CUDA
from tests.compilers import c_compiler
from tests.nvrtc import compile_cuda


def refused(name: str) -> bool:
    try:
        require_kernel_name(name)
    except NameConflictError:
        return True
    return False


def test_functions_of_the_headers_are_no_kernels() -> None:
    headers = C.preamble("float _Complex").partition("static")[0]
    flags = [f for f in BASE_FLAGS if f.startswith("-std")]
    text = subprocess.run([c_compiler(), *flags, "-E", "-P", "-x", "c", "-"], input=headers, check=True, text=True,
                          capture_output=True).stdout
    functions = {name for name in re.findall(r"\b(\w+) *\(", text) if not name.startswith("_")}
    assert {"j0", "nanf", "ldexp", "csin"} & functions
    assert [name for name in sorted(functions) if not refused(name)] == []


def test_functions_of_cuda_are_no_kernels() -> None:
    """Each of them ended in the compiler's own error; an array may have such a name."""
    for name in sorted(LIBRARY):
        with pytest.raises(NameConflictError, match="is a function of C or CUDA") as refusal:
            lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name=name)
        assert f"name='{name}_kernel'" in str(refusal.value.hint)
    arrays = lk.add_dtypes(lk.make_kernel("{[i]: 0<=i<n}", "y1[i] = 2*norm[i]", name="y1_kernel"), {"norm": np.float32})
    assert compile_cuda(str(lk.generate_code(arrays)), "sm_90")


def test_functions_of_the_texts_are_no_arrays() -> None:
    texts = map(made_text, (*CUDA.texts.values(), *C.texts.values()))
    found = {name for text in texts for name in re.findall(r"inline\w* (?:[^(\n]*?\b)?(\w+)\(|struct (\w+)", text)}
    names = {name for pair in found for name in pair if name and name != "operator"} | {*CUDA.policies.values()}
    assert {"copy_async", "load_evict_last", "LoadEvictLast", "cexp", "flagged", "wait_for", "mma_m8n8k4_f64"} <= names
    assert [name for name in sorted(names) if fault(name) is None] == []


def test_a_kernel_may_be_called_like_its_array() -> None:
    """The launch named the pointer."""
    knl = lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", name="y")
    knl = lk.split_iname(lk.add_dtypes(knl, {"x": np.float32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    assert "::y<<<" in lk.generate_code(knl).host


#: What users call sizes, scalars and arrays: all of it may be used, whatever else Python, numpy or loopkit call so.
LIKELY = """
n N m M k K l L np nq nr ns nt nx ny nz NX NY NZ nb nn lk numpy out max_n min_n h H w W b B c C d D e E f F g G p P q
Q r R s S t T u U v V x X z Z A I J O Y i1 i2 i4 i8 f4 f8 u4 c8 size length count total batch heads rows cols columns
width height depth stride steps tsteps order start stop step begin first last index idx offset batch_size n_in n_out
nelem ndof nodes edges N0 N1 dim dims rank ndim block grid thread warp lane tile len num nnz alpha beta gamma delta
eps lam mu nu rho sigma tau theta omega sum product any all reduce cast prod mean var norm time clock rand std arg
args kwargs self target kernel host device stream launch context arr buf buffer tmp temp data result status err
error id ID threads blocks shared const_ lambda_ inf nan pi PI EOF M_PI free exit abort printf malloc memset stdin
near far interface small signal pass yield from import is None def True_ in global local where sign select clamp
argmax argmin zeros ones isl none null string object print range list set dict map filter zip type hash dir vars open
file input bytes str repr min_ max_ j0 y1 yn launch_n wrap n_0 _n private_ knl lo hi low high left right mid key
value val col row ptr rowptr indices indptr acc total_ seed state"""


@pytest.mark.deep(every=12)
@pytest.mark.parametrize("role", ["size", "array", "temporary", "iname"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.float16])
def test_likely_names_compile(role: str, dtype: type) -> None:
    """Both texts compile, with each header and helper that a dtype brings."""
    if dtype is not np.float32 and role != "size":
        pytest.skip("the headers are the same")
    of_isl = {"nan"} if role in ("size", "iname") else set()
    names, step = [x for x in LIKELY.split() if x not in of_isl], 10 if role == "iname" else 60
    for first in range(0, len(names), step):
        some = names[first:first + step]
        domains, data = ["{[_i]: 0<=_i<4}"], [lk.GlobalArg("_x", dtype), "..."]
        match role:
            case "size":
                for x in some:
                    assert lk.make_kernel(f"{{[_i]: 0<=_i<{x}}}", "_y[_i] = 1", name="likely").argument_by_name[x]
                text = f"_y[_i] = _x[_i]*_x[0]*({' + '.join(some)})"
                data[1:1] = [lk.ValueArg(x, np.int32) for x in some]
            case "array":
                text = f"_y[_i] = _x[_i]*({' + '.join(f'{x}[_i]' for x in some)})"
                data[1:1] = [lk.GlobalArg(x, dtype) for x in some]
            case "temporary":
                text = "\n".join(f"<> {x} = _x[_i]*2" for x in some[:20]) + f"\n_y[_i] = {' + '.join(some[:20])}"
            case _:
                domains = [f"{{[{x}]: 0<={x}<4}}" for x in some]
                text = "\n".join(f"_y{k}[{x}] = _x[{x}]*2" for k, x in enumerate(some))
        knl = lk.make_kernel(domains, text, data, name="likely")
        assert compile_cuda(str(lk.generate_code(knl, target="cuda", verify=False)), "sm_90")
        assert lk.compile(lk.set_options(knl, verify="off"), "c").source


def test_a_size_called_np() -> None:
    knl = lk.make_kernel("{[i,j]: 0<=i<np and 0<=j<np}", "<> t = cast(np.float32, i)\ny[i] = sum(j, x[j]) + np + t")
    y, = knl(x=np.ones(5))
    np.testing.assert_array_equal(y, np.arange(5) + 10)
    assert lk.fix_parameters(knl, np=5).assumptions is not None
    with pytest.raises(lk.ParseError, match="expected an operator"):
        lk.make_kernel("{[i]: 0<=i<np}", "y[i] = np.sin(x[i])")


@pytest.mark.parametrize("name", ["MAX", "Min", "nan", "infty", "mod", "rat"])
def test_words_of_isl(name: str) -> None:
    """isl reads them in any case; arrays may be called so."""
    with pytest.raises(lk.ParseError, match=f"'{name}' is a keyword of isl's notation"):
        lk.make_kernel(f"{{[i]: 0<=i<{name}}}", "y[i] = 1")
    lk.make_kernel("{[i]: 0<=i<n}", f"y[i] = {name}[i]")


def test_a_name_called_end() -> None:
    """It ends a block only alone on a line."""
    knl = lk.make_kernel("{[i,j]: 0<=i<end and 0<=j<2}", "for i\n  <> t = (\n end\n )*x[i]  # end\n"
                         "  y[i] = t + end\n  end  # of i\nfor j\nend_[j] = end\nend")
    assert lk.make_kernel(knl.domains_text.splitlines(), knl.statements_text).statements_text == knl.statements_text
    end_, y = knl(x=np.ones(3))
    np.testing.assert_array_equal(y, [6, 6, 6])
    np.testing.assert_array_equal(end_, [3, 3])
    knl = lk.make_kernel("{[end]: 0<=end<n}", "end_[end] = 2*end\nx[end] = 1")
    assert knl.statements_text.splitlines()[0] == "for end"
    with pytest.raises(lk.ParseError, match="This 'for' has no 'end'"):
        lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = 1 + end")
    with pytest.raises(lk.ParseError, match="cannot be read at 'end'"):
        lk.make_kernel("{[i]: 0<=i<n}", "for i\ny[i] = 1 end")


def test_an_array_called_sum() -> None:
    """A reduction has a parenthesis after its name; a rule would have one too, and may not be called so."""
    knl = lk.make_kernel("{[i,j]: 0<=i<n and 0<=j<m}", "<> any = sum(j, x[i,j])\nsum[i] = any + product(j, x[i,j])")
    sums, = knl(x=np.full((3, 2), 3.))
    np.testing.assert_array_equal(sums, [15, 15, 15])
    for name in ("sum", "reduce", "cast", "all"):
        with pytest.raises(NameConflictError):
            lk.make_kernel("{[i]: 0<=i<n}", f"{name}(a) := 2*a\ny[i] = x[i]")
        with pytest.raises(NameConflictError):
            lk.extract_subst(lk.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]"), name, "2*x[p]", ["p"])


@pytest.mark.parametrize("name", ["printf", "malloc", "free", "exit", "abort", "memset", "main", "stdin"])
def test_kernels_that_would_replace_functions_of_the_library(name: str) -> None:
    assert refused(name)
