// proven: order (11 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(256)
softmax(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int i = blockIdx.x;
    const int j_inner = threadIdx.x;
    float acc_j;
    __shared__ float acc_j_shared[8];
    float acc_j_all;
    float top;
    float acc_j_0;
    __shared__ float acc_j_0_shared[8];
    float acc_j_0_all;
    float scale;
    float acc_j_warp{};  // combined by shuffles in warps of 32
    float acc_j_0_warp{};  // combined by shuffles in warps of 32

    // insn.j.init
    acc_j = -INFINITY;
    for (int j_outer = 0; j_outer < m / 256; ++j_outer) {
        // insn.j.update
        acc_j = fmaxf(acc_j, x[i*m + 256*j_outer + j_inner]);
    }
    if (j_inner < m % 256) {
        const int j_outer = m / 256;
        // insn.j.update
        acc_j = fmaxf(acc_j, x[i*m + 256*j_outer + j_inner]);
    }
    // insn.j.store ... insn.j.step4: shuffles combine acc_j of 32 lanes; the first one gets the result
    acc_j_warp = acc_j;
    acc_j_warp = fmaxf(acc_j_warp, __shfl_down_sync(0xffffffff, acc_j_warp, 16));
    acc_j_warp = fmaxf(acc_j_warp, __shfl_down_sync(0xffffffff, acc_j_warp, 8));
    acc_j_warp = fmaxf(acc_j_warp, __shfl_down_sync(0xffffffff, acc_j_warp, 4));
    acc_j_warp = fmaxf(acc_j_warp, __shfl_down_sync(0xffffffff, acc_j_warp, 2));
    acc_j_warp = fmaxf(acc_j_warp, __shfl_down_sync(0xffffffff, acc_j_warp, 1));
    if (j_inner % 32 == 0) {
        // insn.j.put
        acc_j_shared[j_inner / 32] = acc_j_warp;
    }
    // acc_j_shared: insn.j.put writes, insn.j.first reads
    // acc_j_shared: insn.j.put writes, insn.j.rest reads
    __syncthreads();
    // insn.j.first
    acc_j_all = acc_j_shared[0];
    #pragma unroll
    for (int warp = 1; warp < 8; ++warp) {
        // insn.j.rest
        acc_j_all = fmaxf(acc_j_all, acc_j_shared[warp]);
    }
    // insn
    top = acc_j_all;
    // insn_0.j.init
    acc_j_0 = 0.0f;
    for (int j_outer = 0; j_outer < m / 256; ++j_outer) {
        // insn_0.j.update
        acc_j_0 += expf(x[i*m + 256*j_outer + j_inner] - top);
    }
    if (j_inner < m % 256) {
        const int j_outer = m / 256;
        // insn_0.j.update
        acc_j_0 += expf(x[i*m + 256*j_outer + j_inner] - top);
    }
    // insn_0.j.store ... insn_0.j.step4: shuffles combine acc_j_0 of 32 lanes; the first one gets the result
    acc_j_0_warp = acc_j_0;
    acc_j_0_warp += __shfl_down_sync(0xffffffff, acc_j_0_warp, 16);
    acc_j_0_warp += __shfl_down_sync(0xffffffff, acc_j_0_warp, 8);
    acc_j_0_warp += __shfl_down_sync(0xffffffff, acc_j_0_warp, 4);
    acc_j_0_warp += __shfl_down_sync(0xffffffff, acc_j_0_warp, 2);
    acc_j_0_warp += __shfl_down_sync(0xffffffff, acc_j_0_warp, 1);
    if (j_inner % 32 == 0) {
        // insn_0.j.put
        acc_j_0_shared[j_inner / 32] = acc_j_0_warp;
    }
    // acc_j_0_shared: insn_0.j.put writes, insn_0.j.first reads
    // acc_j_0_shared: insn_0.j.put writes, insn_0.j.rest reads
    __syncthreads();
    // insn_0.j.first
    acc_j_0_all = acc_j_0_shared[0];
    #pragma unroll
    for (int warp_0 = 1; warp_0 < 8; ++warp_0) {
        // insn_0.j.rest
        acc_j_0_all += acc_j_0_shared[warp_0];
    }
    // insn_0
    scale = 1.0f / acc_j_0_all;
    for (int j_outer = 0; j_outer < m / 256; ++j_outer) {
        // insn_1
        y[i*m + 256*j_outer + j_inner] = expf(x[i*m + 256*j_outer + j_inner] - top)*scale;
    }
    if (j_inner < m % 256) {
        const int j_outer = m / 256;
        // insn_1
        y[i*m + 256*j_outer + j_inner] = expf(x[i*m + 256*j_outer + j_inner] - top)*scale;
    }
}
