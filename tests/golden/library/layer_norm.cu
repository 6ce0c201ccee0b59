// proven: order (11 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

__device__ __forceinline__ float power2_f32(float x)
{
    return x*x;
}

extern "C" __global__ void __launch_bounds__(256)
layer_norm(const float *__restrict__ bias, const float *__restrict__ weight, const float *__restrict__ x,
    float *__restrict__ y, const int m, const int n)
{
    const int i = blockIdx.x;
    const int j_inner = threadIdx.x;
    float acc_j;
    __shared__ float acc_j_shared[8];
    float acc_j_all;
    float mean;
    float acc_j_0;
    __shared__ float acc_j_0_shared[8];
    float acc_j_0_all;
    float scale;
    float acc_j_warp{};  // combined by shuffles in warps of 32
    float acc_j_0_warp{};  // combined by shuffles in warps of 32

    // insn.j.init
    acc_j = 0.0f;
    for (int j_outer = 0; j_outer < m / 256; ++j_outer) {
        // insn.j.update
        acc_j += x[i*m + 256*j_outer + j_inner];
    }
    if (j_inner < m % 256) {
        const int j_outer = m / 256;
        // insn.j.update
        acc_j += x[i*m + 256*j_outer + j_inner];
    }
    // insn.j.store ... insn.j.step4: shuffles combine acc_j of 32 lanes; the first one gets the result
    acc_j_warp = acc_j;
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 16);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 8);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 4);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 2);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 1);
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
        acc_j_all += acc_j_shared[warp];
    }
    // insn
    mean = acc_j_all / m;
    // insn_0.j.init
    acc_j_0 = 0.0f;
    for (int j_outer = 0; j_outer < m / 256; ++j_outer) {
        // insn_0.j.update
        acc_j_0 += power2_f32(x[i*m + 256*j_outer + j_inner] - mean);
    }
    if (j_inner < m % 256) {
        const int j_outer = m / 256;
        // insn_0.j.update
        acc_j_0 += power2_f32(x[i*m + 256*j_outer + j_inner] - mean);
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
    scale = rsqrtf(acc_j_0_all / m + 1e-5f);
    for (int j_outer = 0; j_outer < m / 256; ++j_outer) {
        // insn_1
        y[i*m + 256*j_outer + j_inner] =
                (x[i*m + 256*j_outer + j_inner] - mean)*scale*weight[256*j_outer + j_inner] +
                bias[256*j_outer + j_inner];
    }
    if (j_inner < m % 256) {
        const int j_outer = m / 256;
        // insn_1
        y[i*m + 256*j_outer + j_inner] =
                (x[i*m + 256*j_outer + j_inner] - mean)*scale*weight[256*j_outer + j_inner] +
                bias[256*j_outer + j_inner];
    }
}
