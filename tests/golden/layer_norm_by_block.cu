// proven: order (12 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

__device__ __forceinline__ float power2_f32(float x)
{
    return x*x;
}

extern "C" __global__ void __launch_bounds__(64)
layer_norm_block(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int i = blockIdx.x;
    const int k_inner = threadIdx.x;
    const int j_inner = threadIdx.x;
    float acc_k;
    __shared__ float acc_k_shared[2];
    float acc_k_all;
    float mean;
    float acc_k_0;
    __shared__ float acc_k_0_shared[2];
    float acc_k_0_all;
    float var;
    float scale;
    float acc_k_warp{};  // combined by shuffles in warps of 32
    float acc_k_0_warp{};  // combined by shuffles in warps of 32

    // insn.k.init
    acc_k = 0.0f;
    for (int k_outer = 0; k_outer < m / 64; ++k_outer) {
        // insn.k.update
        acc_k += x[i*m + 64*k_outer + k_inner];
    }
    if (k_inner < m % 64) {
        const int k_outer = m / 64;
        // insn.k.update
        acc_k += x[i*m + 64*k_outer + k_inner];
    }
    // insn.k.store ... insn.k.step4: shuffles combine acc_k of 32 lanes; the first one gets the result
    acc_k_warp = acc_k;
    acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 16);
    acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 8);
    acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 4);
    acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 2);
    acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 1);
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
    acc_k_all += acc_k_shared[1];
    // insn
    mean = acc_k_all / m;
    // insn_0.k.init
    acc_k_0 = 0.0f;
    for (int k_outer = 0; k_outer < m / 64; ++k_outer) {
        // insn_0.k.update
        acc_k_0 += power2_f32(x[i*m + 64*k_outer + k_inner] - mean);
    }
    if (k_inner < m % 64) {
        const int k_outer = m / 64;
        // insn_0.k.update
        acc_k_0 += power2_f32(x[i*m + 64*k_outer + k_inner] - mean);
    }
    // insn_0.k.store ... insn_0.k.step4: shuffles combine acc_k_0 of 32 lanes; the first one gets the result
    acc_k_0_warp = acc_k_0;
    acc_k_0_warp += __shfl_down_sync(0xffffffff, acc_k_0_warp, 16);
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
    var = acc_k_0_all / m;
    // insn_1
    scale = rsqrtf(var + 1e-5f);
    for (int j_outer = 0; j_outer < m / 64; ++j_outer) {
        // insn_2
        y[i*m + 64*j_outer + j_inner] = (x[i*m + 64*j_outer + j_inner] - mean)*scale;
    }
    if (j_inner < m % 64) {
        const int j_outer = m / 64;
        // insn_2
        y[i*m + 64*j_outer + j_inner] = (x[i*m + 64*j_outer + j_inner] - mean)*scale;
    }
}
