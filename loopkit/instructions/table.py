"""Tables of instructions: by the option of a statement, by the event that they complete, and by language."""
from __future__ import annotations

from collections.abc import Mapping

from loopkit.ast.nodes import Completion, Instruction
from loopkit.instructions import (
    asynchronous_copy,
    atomic_update,
    block_flag,
    fences,
    groups,
    ldmatrix,
    mma,
    phases,
    role_registers,
    simd_loop,
    stmatrix,
    tma,
    tma_multicast,
    tma_store,
    turns,
    vector_access,
    wgmma,
)
from loopkit.instructions.base import InstructionTexts, MemoryInstruction
from loopkit.instructions.nests import NestInstruction

#: The instruction for each option in the braces after an assignment.
STATEMENT_INSTRUCTIONS: Mapping[str, MemoryInstruction] = {
    "atomic": atomic_update.AtomicUpdate(), "async": asynchronous_copy.AsynchronousCopy()}

#: The instructions that execute nests of loops, by name.
NEST_INSTRUCTIONS: Mapping[str, NestInstruction] = {
    **mma.MMA, **wgmma.WGMMA, **ldmatrix.LDMATRIX, **stmatrix.STMATRIX, **tma.TMA,
    **tma_store.TMA_STORES}

#: The instruction that completes each event for all accesses that a thread started.
WAITS: Mapping[Completion, Instruction] = {
    Completion.GROUP: groups.WaitGroup(0), Completion.PRODUCTS: groups.WaitGroup(0, Completion.PRODUCTS),
    Completion.STORES: groups.WaitGroup(0, Completion.STORES),
    Completion.PROXY: fences.ProxyFence(), Completion.REGISTERS: fences.RegisterFence()}

#: The instructions of CUDA C++. The order here is that of the helper functions in a text.
CUDA_TEXTS: InstructionTexts = {
    asynchronous_copy.AsynchronousCopy: asynchronous_copy.CUDA,
    groups.CommitGroup: groups.CUDA_COMMIT, groups.WaitGroup: groups.CUDA_WAIT,
    fences.ProxyFence: fences.CUDA_PROXY, fences.RegisterFence: fences.CUDA_REGISTERS,
    phases.StartPhases: phases.CUDA_START, tma.TmaLoadIssue: tma.CUDA,
    tma_multicast.TmaMulticastIssue: tma_multicast.CUDA, phases.WaitPhase: phases.CUDA_WAIT,
    phases.ArrivePhase: phases.CUDA_ARRIVE, role_registers.SetRegisters: role_registers.CUDA,
    turns.Turn: turns.CUDA, tma_store.TmaStoreIssue: tma_store.CUDA,
    block_flag.BlockFlag: block_flag.CUDA, mma.MmaIssue: mma.CUDA, wgmma.WgmmaIssue: wgmma.CUDA,
    ldmatrix.LdMatrixIssue: ldmatrix.CUDA, stmatrix.StMatrixIssue: stmatrix.CUDA,
    vector_access.VectorAccess: vector_access.CUDA,
    atomic_update.AtomicUpdate: atomic_update.CUDA}

#: Those whose texts differ in a function whose blocks form clusters.
CUDA_TEXTS_IN_CLUSTERS: InstructionTexts = {wgmma.WgmmaIssue: wgmma.CUDA_IN_CLUSTER}

#: Those of OpenCL C. It has no asynchronous copies and no matrix instructions, whose statements become plain code, and
#: no order between work-groups, so that inter-block flags are refused.
OPENCL_TEXTS: InstructionTexts = {
    vector_access.VectorAccess: vector_access.OPENCL, atomic_update.AtomicUpdate: atomic_update.OPENCL}

#: The instructions of C with OpenMP.
OPENMP_TEXTS: InstructionTexts = {atomic_update.AtomicUpdate: atomic_update.OPENMP, simd_loop.SimdLoop: simd_loop.C}

#: The helper functions of all texts; their names are reserved.
CUDA_HELPERS = {name: text for own in CUDA_TEXTS.values() for name, text in own.helpers.items()}
OPENCL_HELPERS = {name: text for own in OPENCL_TEXTS.values() for name, text in own.helpers.items()}
