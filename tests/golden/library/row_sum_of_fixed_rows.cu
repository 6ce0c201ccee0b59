// proven: order (4 dependences), in bounds, no read before a write, no races; barriers: 1, each needed
// vector accesses: x at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(256)
row_sum(float *__restrict__ s, const float *__restrict__ x, const int n)
{
    const int i = blockIdx.x;
    const int j_vec_inner = threadIdx.x;
    float acc_j;
    __shared__ float acc_j_shared[8];
    float acc_j_all;
    float acc_j_warp{};  // combined by shuffles in warps of 32

    // insn.j.init
    acc_j = 0.0f;
    #pragma unroll
    for (int j_vec_outer = 0; j_vec_outer < 4; ++j_vec_outer) {
        alignas(16) float x_vec[4];
        *reinterpret_cast<float4 *>(x_vec) =
                *reinterpret_cast<const float4 *>(&x[4096*i + 1024*j_vec_outer + 4*j_vec_inner]);
        #pragma unroll
        for (int j_item = 0; j_item < 4; ++j_item) {
            // insn.j.update
            acc_j += x_vec[j_item];
        }
    }
    // insn.j.store ... insn.j.step4: shuffles combine acc_j of 32 lanes; the first one gets the result
    acc_j_warp = acc_j;
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 16);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 8);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 4);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 2);
    acc_j_warp += __shfl_down_sync(0xffffffff, acc_j_warp, 1);
    if (j_vec_inner % 32 == 0) {
        // insn.j.put
        acc_j_shared[j_vec_inner / 32] = acc_j_warp;
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
    if ((int)threadIdx.x == 0) {
        // insn
        s[i] = acc_j_all;
    }
}
