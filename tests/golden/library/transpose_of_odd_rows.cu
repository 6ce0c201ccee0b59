// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 1, each needed

struct LoadEvictLast {  // caches evict last what it loads
#if __CUDA_ARCH__ >= 800
    unsigned long long policy;

    __device__ __forceinline__ LoadEvictLast()
    {
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    }
#endif
    template <typename T>
    __device__ __forceinline__ T operator()(const T *p) const
    {
#if __CUDA_ARCH__ >= 800
        T value = {};
        if constexpr (sizeof(T) == 16) {
            uint4 w;
            asm("ld.global.L1::evict_last.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p), "l"(policy));
            memcpy(&value, &w, sizeof(T));
        } else if constexpr (sizeof(T) == 8) {
            uint2 w;
            asm("ld.global.L1::evict_last.L2::cache_hint.v2.b32 {%0, %1}, [%2], %3;"
                : "=r"(w.x), "=r"(w.y) : "l"(p), "l"(policy));
            memcpy(&value, &w, sizeof(T));
        } else if constexpr (sizeof(T) == 4) {
            unsigned int w;
            asm("ld.global.L1::evict_last.L2::cache_hint.b32 %0, [%1], %2;" : "=r"(w) : "l"(p), "l"(policy));
            memcpy(&value, &w, sizeof(T));
        } else {
            value = *p;
        }
        return value;
#else
        return *p;
#endif
    }
};

extern "C" __global__ void __launch_bounds__(1024)
transpose(const float *__restrict__ a, float *__restrict__ b, const int m)
{
    const int j_outer = blockIdx.y;
    const int i_outer = blockIdx.x;
    const int a_dim_0_inner = (int)threadIdx.y / 4;
    const int a_warp = (int)threadIdx.y % 4;
    const int a_lane = threadIdx.x;
    const int j_inner_inner = threadIdx.y;
    const int i_inner_inner = threadIdx.x;
    __shared__ float a_fetch[72][129];
    const LoadEvictLast load_evict_last;

    if (i_outer == 1 && 128*j_outer + 128 <= m) {  // a full tile
        #pragma unroll
        for (int a_dim_0_outer = 0; a_dim_0_outer < 9; ++a_dim_0_outer) {
            // a_fetch_rule
            a_fetch[8*a_dim_0_outer + a_dim_0_inner][32*a_warp + a_lane] =
                    load_evict_last(&a[(64*i_outer + 8*a_dim_0_outer + a_dim_0_inner - 7)*m + 128*j_outer +
                        32*a_warp + a_lane]);
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        #pragma unroll
        for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
            #pragma unroll
            for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer) {
                // insn
                b[17024*j_outer + 4256*j_inner_outer + 133*j_inner_inner + 64*i_outer + 32*i_inner_outer +
                            i_inner_inner - 5*(128*j_outer + 32*j_inner_outer + j_inner_inner) % 8] =
                        a_fetch[32*i_inner_outer +
                            i_inner_inner - 5*(128*j_outer + 32*j_inner_outer + j_inner_inner) % 8 +
                            7][32*j_inner_outer + j_inner_inner];
            }
        }
    } else {
        if (128*j_outer + 32*a_warp + a_lane < m) {
            #pragma unroll
            for (int a_dim_0_outer = 0; a_dim_0_outer < 9; ++a_dim_0_outer) {
                if ((0 < a_dim_0_outer || 7 <= 64*i_outer + 8*a_dim_0_outer + a_dim_0_inner) &&
                        64*i_outer + 8*a_dim_0_outer + a_dim_0_inner <= 139) {
                    // a_fetch_rule
                    a_fetch[8*a_dim_0_outer + a_dim_0_inner][32*a_warp + a_lane] =
                            load_evict_last(&a[(64*i_outer + 8*a_dim_0_outer + a_dim_0_inner - 7)*m +
                                128*j_outer + 32*a_warp + a_lane]);
                }
            }
        }
        // a_fetch: a_fetch_rule writes, insn reads
        __syncthreads();
        if (128*j_outer + j_inner_inner < m &&
                64*i_outer + 3*j_inner_inner + i_inner_inner <= 8*((3*j_inner_inner + 7) / 8) + 132) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                #pragma unroll
                for (int i_inner_outer = 0; i_inner_outer < 2; ++i_inner_outer) {
                    if (128*j_outer + 32*j_inner_outer + j_inner_inner < m &&
                            8*((3*j_inner_inner + 7) / 8) <= 64*i_outer + 32*i_inner_outer +
                            3*j_inner_inner + i_inner_inner &&
                            64*i_outer + 32*i_inner_outer + 3*j_inner_inner +
                            i_inner_inner <= 8*((3*j_inner_inner + 7) / 8) + 132) {
                        // insn
                        b[17024*j_outer + 4256*j_inner_outer + 133*j_inner_inner + 64*i_outer +
                                    32*i_inner_outer +
                                    i_inner_inner - 5*(128*j_outer + 32*j_inner_outer +
                                    j_inner_inner) % 8] =
                                a_fetch[32*i_inner_outer +
                                    i_inner_inner - 5*(128*j_outer + 32*j_inner_outer + j_inner_inner) % 8 +
                                    7][32*j_inner_outer + j_inner_inner];
                    }
                }
            }
        }
    }
}
