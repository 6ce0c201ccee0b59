"""Products by matrix instructions: the numbers that they compute, their proofs, their texts and their refusals."""
from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest

import loopkit as lk
from loopkit.ast.nodes import Region
from loopkit.ast.walk import nodes_in
from loopkit.expr.kinds import named_dtype
from loopkit.instructions.mma import CUDA, MMA, MmaIssue
from loopkit.instructions.nests import Issue
from loopkit.instructions.table import NEST_INSTRUCTIONS
from loopkit.lowering.pipeline import lowered_once
from loopkit.verification.validation import validate
from tests.matrix_kernels import PRODUCTS, data, product
from tests.nvrtc import compile_cuda
from tests.property.machine import execute

ARCHITECTURES = ("sm_80", "sm_89", "sm_90", "sm_100")

BF16 = named_dtype("bfloat16")


def architectures(name: str) -> list[str]:
    """Those of :data:`ARCHITECTURES` that have the instruction *name*."""
    return [arch for arch in ARCHITECTURES if int(arch[3:]) >= NEST_INSTRUCTIONS[name].capability]


# What they compute

@pytest.mark.deep(every=16)
@pytest.mark.parametrize(("name", "way"), PRODUCTS)
def test_each_instruction(name: str, way: str) -> None:
    """Proven; on the test machine and in C the numbers of numpy; and NVRTC accepts the text."""
    knl, (given, expected) = product(name, way), data(name)
    low = lowered_once(knl)
    issued = [node.instruction for node in nodes_in(low.program.functions[0].body)
              if isinstance(node, Region) and isinstance(node.instruction, Issue)]
    assert {type(i) for i in issued} == {type(i) for i in issued if way == "ldmatrix" or isinstance(i, MmaIssue)}
    assert len(issued) == (3 if way == "ldmatrix" else 1)
    assert validate(low) == ()
    found = execute(low, {**given, "c": np.zeros_like(expected)}, {}, random.Random(name))["c"]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(knl(**given).c, expected)
    for arch in architectures(name):
        compile_cuda(lk.generate_code(knl, target=lk.CudaTarget(arch)).source, arch)


def test_all_proofs_of_a_product() -> None:
    verdicts = lk.verify(product("mma.m16n8k8.f32.bf16", "ldmatrix"), full=True)
    assert verdicts.verdict is lk.Verdict.PROVEN
    assert verdicts["barriers"].summary == "2, each needed"


# Their texts

def calls_of_all(arch: str) -> str:
    """A text that calls each function that *arch* has, with some numbers."""
    lines, helpers = list[str](), CUDA.helpers
    for name, mma in MMA.items():
        if arch not in architectures(name):
            continue
        function = name.replace(".", "_")
        parameters = re.search(rf"void {function}\(([^)]*)\)", helpers[function])[1].replace("\n", " ").split(",")  # type: ignore[index]
        types = [re.sub(r"&?\w+$", "", x.strip()).strip() for x in parameters]
        names = [f"{function}_{k}" for k in range(len(types))]
        lines += [f"{t} {x} = ({t}) threadIdx.x;" for t, x in zip(types, names, strict=True)]
        lines.append(f"{function}({', '.join(names)});")
        lines.append(f"out[threadIdx.x] += {' + '.join(f'(double) {x}' for x in names[:mma.sums.registers])};")
    body = "\n    ".join(lines)
    return "".join(helpers.values()) + f"""
extern "C" __global__ void all(double *out)
{{
    {body}
}}
"""


@pytest.mark.deep(every=4)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_functions_of_all_instructions(arch: str) -> None:
    source = calls_of_all(arch)
    assert source.count("_0 = (") == sum(arch in architectures(name) for name in MMA)
    compile_cuda(source, arch)


def test_a_name_has_the_shape_and_the_types() -> None:
    for name, mma in MMA.items():
        types = mma.sum.ptx if mma.sum == mma.factor else f"{mma.sum.ptx}.{mma.factor.ptx}"
        assert name == mma.name == "mma.m{}n{}k{}.{}".format(*mma.shape, types)
        assert mma.capability == (89 if mma.factor.ptx in ("e4m3", "e5m2") else 80)
        assert mma.fraction_of_sums == (13 if mma.factor.ptx in ("e4m3", "e5m2") else None)


def test_an_architecture_without_the_instruction() -> None:
    knl = product("mma.m16n8k32.f32.e4m3", "fragments")
    with pytest.raises(lk.PreconditionError) as err:
        lk.generate_code(knl, target=lk.CudaTarget("sm_80"))
    assert str(err.value).splitlines() == [
        "'insn.k.update' needs mma.m16n8k32.f32.e4m3, which sm_80 does not have.", "  hint: target sm_89 or later"]


def test_a_text_names_each_lane_that_it_needs_and_no_other() -> None:
    """The row of ldmatrix is an expression in the thread's number."""
    source = lk.generate_code(product("mma.m16n8k8.f32.bf16", "ldmatrix"), target="cuda").source
    named = re.findall(r"const int (\w+_lane) =", source)
    assert named == ["i_box_lane", "j_box_lane"]
    assert all(len(re.findall(rf"\b{x}\b", source)) > 1 for x in named)


# What they refuse

def lowered(text: str, name: str = "mma.m16n8k8.f64", domain: str = "", **dtypes: object) -> None:
    knl = lk.make_kernel(domain or "{[i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<8}", text)
    knl = lk.add_dtypes(knl, {x: dtypes.get(x, np.float64) for x in knl.array_args})
    lk.lower(lk.tensorize(knl, "insn", name))


def sums_in_shared_memory() -> None:
    knl = product("mma.m16n8k8.f64", "shared")
    lk.lower(lk.set_temporary_address_space(knl, "acc_k", "local"))


def ends_of_whole_warps() -> None:
    knl = lk.make_kernel("{[i, j, k, q]: 0<=i,j<8 and 0<=k<4 and 0<=q<40}",
                         "c[i, j] = sum(k, a[i, k]*b[k, j]) {id=insn}\nd[q] = a[0, 0] {id=other}")
    knl = lk.tag_inames(lk.add_dtypes(knl, {"a,b": np.float64}), "q: l.0")
    lk.lower(lk.tensorize(knl, "insn", "mma.m8n8k4.f64"))


def columns_first() -> None:
    knl = lk.make_kernel("{[i, j, k]: 0<=i,j<8 and 0<=k<4}", "c[i, j] = sum(k, a[i, k]*b[k, j])")
    knl = lk.prioritize_loops(lk.add_dtypes(knl, {"a,b": np.float64}), "j, i")
    lk.lower(lk.tensorize(knl, "insn", "mma.m8n8k4.f64"))


PLAIN = "c[i, j] = sum(k, a[i, k]*b[k, j])"


@pytest.mark.parametrize(("make", "reason", "hint"), [
    (lambda: lowered("c[i, j] = sum(k, w[i, k]*b[k, j])", w=np.float32),
     "'w' is float32, and the instruction multiplies float64",
     "choose an instruction for both factors; its name ends with their type"),
    (lambda: lowered(PLAIN, "mma.m16n8k8.f32.bf16", a=BF16, b=BF16, c=np.float32),
     "its sums are bfloat16, and the instruction adds up float32",
     "set_accumulator_dtype(knl, 'float32'), or an instruction for bfloat16"),
    (lambda: lowered("c[i, j] = sum(k, a[i, k]*b[k, j + m[0]])", m=np.int32),
     "a subscript of b[4*k_part + k_lane, 2*j_lane + j_item + m[0]] depends on data",
     "copy the elements to shared memory first"),
    (lambda: lowered("c[i, j] = sum(k, if(i < 3, a[i, k], 0)*b[k, j])"),
     "the factor a[8*i_part + i_lane, 4*k_part + k_lane] if 8*i_part + i_lane < 3 else 0 is not an element of an array",
     "compute such factors first: precompute(knl, rule, ...)"),
    (lambda: lowered(PLAIN, "mma.m16n8k8.f32.tf32", a=np.float32, b=np.float32, c=np.float32),
     "the factor a[8*i_part + i_lane, 4*k_part + k_lane] is not tf32(...) of an element",
     "set_operand_precision(knl, 'tf32')"),
    (lambda: lowered(PLAIN, domain="{[i, j, k]: 0<=i<16 and 0<=j<8 and 0<=k<8 and k<=i}"),
     "a condition in its loops excludes some iterations", "pad_domain lets loops run over whole boxes"),
    (ends_of_whole_warps, "its blocks must have whole warps along l.0, and not 40 threads",
     "give l.0 a multiple of 32 threads in all statements"),
    (columns_first, "the last inames on l.0 must be 8 by 4 lanes of the sums: there are j_lane of 4, i of 8",
     "prioritize_loops before tensorize: rows first, then columns, then steps"),
    (sums_in_shared_memory, "its sums are in shared memory, and not in the registers of a thread",
     "let the lanes of one warp compute all terms of a sum")])
def test_what_an_instruction_cannot_execute(make: Callable[[], None], reason: str, hint: str) -> None:
    with pytest.raises(lk.PreconditionError) as err:
        make()
    message = str(err.value)
    found = re.fullmatch(r"'mma\.m\w+\.[\w.]+' cannot execute 'insn\.k\.update': (.*)\.\n  hint: (.*)", message)
    assert found is not None, message
    assert found.groups() == (reason, hint)
