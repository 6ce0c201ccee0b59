// proven: order (13 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

__device__ __forceinline__ float power2_f32(float x)
{
    return x*x;
}
// rsqrtf of a number that is not subnormal, for which it would test, and scale: the same bits
__device__ __forceinline__ float rsqrt_normal_f32(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

extern "C" __global__ void __launch_bounds__(256)
nbody_direct_0(const float *__restrict__ q, const float *__restrict__ x, const float *__restrict__ y,
    const float *__restrict__ z, float *__restrict__ partial, const int n)
{
    const int i_outer = blockIdx.x;
    const int p = blockIdx.y;
    const int i_thread = threadIdx.y;
    const int j_lane = threadIdx.x;
    float xi[8];
    float yi[8];
    float zi[8];
    float acc_t_j[8];
    __shared__ __align__(16) float others[512][4];
    float acc_t_j_all;
    float acc_t_j_warp{};  // combined by shuffles in rows of 8

    #pragma unroll
    for (int i_item = 0; i_item < 8; ++i_item) {
        // insn
        xi[i_item] = 256*i_outer + 32*i_item + i_thread < n ? x[256*i_outer + 32*i_item + i_thread] : 0.0f;
        // insn_0
        yi[i_item] = 256*i_outer + 32*i_item + i_thread < n ? y[256*i_outer + 32*i_item + i_thread] : 0.0f;
        // insn_1
        zi[i_item] = 256*i_outer + 32*i_item + i_thread < n ? z[256*i_outer + 32*i_item + i_thread] : 0.0f;
        // partial.t_j.init
        acc_t_j[i_item] = 0.0f;
    }
    for (int t = 0; t < (-512*p + n + 8191) / 8192; ++t) {
        #pragma unroll
        for (int others_rule_round = 0; others_rule_round < 2; ++others_rule_round) {
            const int other = 256*others_rule_round + 8*threadIdx.y + threadIdx.x;
            alignas(16) float others_vec[4];
            #pragma unroll
            for (int other_part = 0; other_part < 4; ++other_part) {
                // others_rule
                others_vec[other_part] = 8192*t + 512*p + other < n ?
                        (other_part == 0 ? x[8192*t + 512*p + other] : other_part == 1 ?
                        y[8192*t + 512*p + other] : other_part == 2 ? z[8192*t + 512*p + other] :
                        q[8192*t + 512*p + other]) : 0.0f;
            }
            *reinterpret_cast<float4 *>(&others[other][0]) = *reinterpret_cast<const float4 *>(others_vec);
        }
        // others: others_rule writes, partial.t_j.update reads
        __syncthreads();
        for (int j_group = 0; j_group < 16; ++j_group) {
            #pragma unroll
            for (int j_item = 0; j_item < 4; ++j_item) {
                #pragma unroll
                for (int i_item = 0; i_item < 8; ++i_item) {
                    // partial.t_j.update
                    acc_t_j[i_item] +=
                            others[32*j_group + 8*j_item + j_lane][3]*rsqrt_normal_f32(0.01f +
                            power2_f32(others[32*j_group + 8*j_item + j_lane][0] - xi[i_item]) +
                            power2_f32(others[32*j_group + 8*j_item + j_lane][1] - yi[i_item]) +
                            power2_f32(others[32*j_group + 8*j_item + j_lane][2] - zi[i_item]));
                }
            }
        }
        // others: partial.t_j.update reads, others_rule overwrites
        __syncthreads();
    }
    #pragma unroll
    for (int i_item = 0; i_item < 8; ++i_item) {
        // partial.t_j.store ... partial.t_j.result: shuffles combine acc_t_j[i_item] of 8 lanes; all of them get the result
        acc_t_j_warp = acc_t_j[i_item];
        acc_t_j_warp = __fadd_rn(acc_t_j_warp, __shfl_xor_sync(0xffffffff, acc_t_j_warp, 4));
        acc_t_j_warp += __shfl_xor_sync(0xffffffff, acc_t_j_warp, 2);
        acc_t_j_warp += __shfl_xor_sync(0xffffffff, acc_t_j_warp, 1);
        acc_t_j_all = acc_t_j_warp;
        if ((int)threadIdx.x == 0) {
            // partial
            partial[p*256*((n + 255) / 256) + 256*i_outer + 32*i_item + i_thread] = acc_t_j_all;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
nbody_direct_1(float *__restrict__ phi, const float *__restrict__ partial, const int n)
{
    const int k_outer = blockIdx.x;
    const int k_inner = threadIdx.x;
    float acc_r;

    if (256*k_outer + k_inner < n) {
        // total.r.init
        acc_r = 0.0f;
        for (int r = 0; r < 16; ++r) {
            // total.r.update
            acc_r += partial[r*256*((n + 255) / 256) + 256*k_outer + k_inner];
        }
        // total
        phi[256*k_outer + k_inner] = acc_r;
    }
}
