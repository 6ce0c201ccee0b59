// proven: order (9 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: x at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(256)
full_sum_0(const float *__restrict__ x, float *__restrict__ partial, const int n)
{
    const int b = blockIdx.x;
    const int t = threadIdx.x;
    float acc_r_u_t_v;
    __shared__ float acc_r_u_t_v_shared[8];
    float acc_r_u_t_v_all;
    float acc_r_u_t_v_warp{};  // combined by shuffles in warps of 32

    // partial.r_u_t_v.init
    acc_r_u_t_v = 0.0f;
    for (int r = 0; r < (n - 4096*b + 4190208) / 4194304; ++r) {
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            alignas(16) float x_vec[4];
            *reinterpret_cast<float4 *>(x_vec) =
                    *reinterpret_cast<const float4 *>(&x[4194304*r + 4096*b + 1024*u + 4*t]);
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                // partial.r_u_t_v.update
                acc_r_u_t_v += x_vec[v];
            }
        }
    }
    if (4*t + 4190208 < (n - 4096*b + 4190208) % 4194304) {
        const int r = (n - 4096*b + 4190208) / 4194304;
        #pragma unroll
        for (int u = 0; u < 4; ++u) {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (4194304*r + 4096*b + 1024*u + 4*t + v < n) {
                    // partial.r_u_t_v.update
                    acc_r_u_t_v += x[4194304*r + 4096*b + 1024*u + 4*t + v];
                }
            }
        }
    }
    // partial.r_u_t_v.store ... partial.r_u_t_v.step4: shuffles combine acc_r_u_t_v of 32 lanes; the first one gets the result
    acc_r_u_t_v_warp = acc_r_u_t_v;
    acc_r_u_t_v_warp += __shfl_down_sync(0xffffffff, acc_r_u_t_v_warp, 16);
    acc_r_u_t_v_warp += __shfl_down_sync(0xffffffff, acc_r_u_t_v_warp, 8);
    acc_r_u_t_v_warp += __shfl_down_sync(0xffffffff, acc_r_u_t_v_warp, 4);
    acc_r_u_t_v_warp += __shfl_down_sync(0xffffffff, acc_r_u_t_v_warp, 2);
    acc_r_u_t_v_warp += __shfl_down_sync(0xffffffff, acc_r_u_t_v_warp, 1);
    if (t % 32 == 0) {
        // partial.r_u_t_v.put
        acc_r_u_t_v_shared[t / 32] = acc_r_u_t_v_warp;
    }
    // acc_r_u_t_v_shared: partial.r_u_t_v.put writes, partial.r_u_t_v.first reads
    // acc_r_u_t_v_shared: partial.r_u_t_v.put writes, partial.r_u_t_v.rest reads
    __syncthreads();
    // partial.r_u_t_v.first
    acc_r_u_t_v_all = acc_r_u_t_v_shared[0];
    #pragma unroll
    for (int warp = 1; warp < 8; ++warp) {
        // partial.r_u_t_v.rest
        acc_r_u_t_v_all += acc_r_u_t_v_shared[warp];
    }
    if ((int)threadIdx.x == 0) {
        // partial
        partial[b] = acc_r_u_t_v_all;
    }
}

extern "C" __global__ void __launch_bounds__(256)
full_sum_1(float *__restrict__ s, const float *__restrict__ partial)
{
    const int c_inner = threadIdx.x;
    float acc_c;
    __shared__ float acc_c_shared[8];
    float acc_c_all;
    float acc_c_warp{};  // combined by shuffles in warps of 32

    // total.c.init
    acc_c = 0.0f;
    for (int c_outer = 0; c_outer < 4; ++c_outer) {
        // total.c.update
        acc_c += partial[256*c_outer + c_inner];
    }
    // total.c.store ... total.c.step4: shuffles combine acc_c of 32 lanes; the first one gets the result
    acc_c_warp = acc_c;
    acc_c_warp += __shfl_down_sync(0xffffffff, acc_c_warp, 16);
    acc_c_warp += __shfl_down_sync(0xffffffff, acc_c_warp, 8);
    acc_c_warp += __shfl_down_sync(0xffffffff, acc_c_warp, 4);
    acc_c_warp += __shfl_down_sync(0xffffffff, acc_c_warp, 2);
    acc_c_warp += __shfl_down_sync(0xffffffff, acc_c_warp, 1);
    if (c_inner % 32 == 0) {
        // total.c.put
        acc_c_shared[c_inner / 32] = acc_c_warp;
    }
    // acc_c_shared: total.c.put writes, total.c.first reads
    // acc_c_shared: total.c.put writes, total.c.rest reads
    __syncthreads();
    // total.c.first
    acc_c_all = acc_c_shared[0];
    #pragma unroll
    for (int warp_0 = 1; warp_0 < 8; ++warp_0) {
        // total.c.rest
        acc_c_all += acc_c_shared[warp_0];
    }
    if ((int)threadIdx.x == 0) {
        // total
        s[0] = acc_c_all;
    }
}
