// proven: order (11 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif

extern "C" __global__ void __launch_bounds__(48)
softmax_block(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int i = blockIdx.x;
    const int k_inner = threadIdx.x;
    const int j_inner = threadIdx.x;
    float acc_k;
    __shared__ float acc_k_shared[2];
    float acc_k_all;
    float top;
    float acc_k_0;
    __shared__ float acc_k_0_shared[2];
    float acc_k_0_all;
    float total;
    float acc_k_warp{}, acc_k_warp_other;  // combined by shuffles in warps of 32
    float acc_k_0_warp{}, acc_k_0_warp_other;  // combined by shuffles in warps of 32

    // insn.k.init
    acc_k = -INFINITY;
    for (int k_outer = 0; k_outer < m / 48; ++k_outer) {
        // insn.k.update
        acc_k = fmaxf(acc_k, x[i*m + 48*k_outer + k_inner]);
    }
    if (k_inner < m % 48) {
        const int k_outer = m / 48;
        // insn.k.update
        acc_k = fmaxf(acc_k, x[i*m + 48*k_outer + k_inner]);
    }
    // insn.k.store ... insn.k.step4: shuffles combine acc_k of 32 lanes; the first one gets the result
    acc_k_warp = acc_k;
    acc_k_warp_other = __shfl_down_sync(0xffffffff, acc_k_warp, 16);
    if (k_inner <= 15) {
        acc_k_warp = fmaxf(acc_k_warp, acc_k_warp_other);
    }
    acc_k_warp = fmaxf(acc_k_warp, __shfl_down_sync(0xffffffff, acc_k_warp, 8));
    acc_k_warp = fmaxf(acc_k_warp, __shfl_down_sync(0xffffffff, acc_k_warp, 4));
    acc_k_warp = fmaxf(acc_k_warp, __shfl_down_sync(0xffffffff, acc_k_warp, 2));
    acc_k_warp = fmaxf(acc_k_warp, __shfl_down_sync(0xffffffff, acc_k_warp, 1));
    if (k_inner % 32 == 0) {
        // insn.k.put
        acc_k_shared[k_inner / 32] = acc_k_warp;
    }
    // acc_k_shared: insn.k.put writes, insn.k.first reads
    // acc_k_shared: insn.k.put writes, insn.k.rest reads
    __syncthreads();
    // insn.k.first
    acc_k_all = acc_k_shared[0];
    // insn.k.rest
    acc_k_all = fmaxf(acc_k_all, acc_k_shared[1]);
    // insn
    top = acc_k_all;
    // insn_0.k.init
    acc_k_0 = 0.0f;
    for (int k_outer = 0; k_outer < m / 48; ++k_outer) {
        // insn_0.k.update
        acc_k_0 += expf(x[i*m + 48*k_outer + k_inner] - top);
    }
    if (k_inner < m % 48) {
        const int k_outer = m / 48;
        // insn_0.k.update
        acc_k_0 += expf(x[i*m + 48*k_outer + k_inner] - top);
    }
    // insn_0.k.store ... insn_0.k.step4: shuffles combine acc_k_0 of 32 lanes; the first one gets the result
    acc_k_0_warp = acc_k_0;
    acc_k_0_warp_other = __shfl_down_sync(0xffffffff, acc_k_0_warp, 16);
    if (k_inner <= 15) {
        acc_k_0_warp += acc_k_0_warp_other;
    }
    acc_k_0_warp += __shfl_down_sync(0xffffffff, acc_k_0_warp, 8);
    acc_k_0_warp += __shfl_down_sync(0xffffffff, acc_k_0_warp, 4);
    acc_k_0_warp += __shfl_down_sync(0xffffffff, acc_k_0_warp, 2);
    acc_k_0_warp += __shfl_down_sync(0xffffffff, acc_k_0_warp, 1);
    if (k_inner % 32 == 0) {
        // insn_0.k.put
        acc_k_0_shared[k_inner / 32] = acc_k_0_warp;
    }
    // acc_k_0_shared: insn_0.k.put writes, insn_0.k.first reads
    // acc_k_0_shared: insn_0.k.put writes, insn_0.k.rest reads
    __syncthreads();
    // insn_0.k.first
    acc_k_0_all = acc_k_0_shared[0];
    // insn_0.k.rest
    acc_k_0_all += acc_k_0_shared[1];
    // insn_0
    total = acc_k_0_all;
    for (int j_outer = 0; j_outer < m / 48; ++j_outer) {
        // insn_1
        y[i*m + 48*j_outer + j_inner] = expf(x[i*m + 48*j_outer + j_inner] - top) / total;
    }
    if (j_inner < m % 48) {
        const int j_outer = m / 48;
        // insn_1
        y[i*m + 48*j_outer + j_inner] = expf(x[i*m + 48*j_outer + j_inner] - top) / total;
    }
}
