// proven: order (19 dependences), in bounds, no read before a write, no races; barriers: 3, each needed
// vector accesses: a, b at multiples of 16 bytes, row by row; other calls run a text without them

#include <cuda_bf16.h>
// cp.async: BYTES bytes go to shared memory while the thread goes on; 16 pass by the first cache
template <int BYTES> __device__ __forceinline__ void copy_async(void *shared, const void *global)
{
    const unsigned int to = __cvta_generic_to_shared(shared);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(global), "n"(BYTES) : "memory");
}
// cp.async of the first SIZE of BYTES bytes, with zeros after them; if all are zeros, the index is not used
template <int BYTES, typename T, typename I>
__device__ __forceinline__ void copy_async_or_zeros(void *shared, const T *array, I index, int size)
{
    const unsigned int to = __cvta_generic_to_shared(shared);
    const T *global = array + (size ? index : 0);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(global), "r"(size) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(to), "l"(global), "n"(BYTES), "r"(size) : "memory");
}
// commits the copies that the thread started since the last commit as one group
__device__ __forceinline__ void end_copy_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// waits until all groups of the thread but the NEWEST newest are done
template <int NEWEST> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(NEWEST) : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
product(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b, float *__restrict__ c,
    const int l, const int m, const int n)
{
    const int i_block = blockIdx.y;
    const int j_block = blockIdx.x;
    const int i_thread = threadIdx.y;
    const int j_thread = threadIdx.x;
    float acc_k[4][4];
    __shared__ __align__(16) __nv_bfloat16 a_tile[3][32][32];
    __shared__ __align__(16) __nv_bfloat16 b_tile[3][32][64];

    if (64*j_block + 64 <= m && 32*i_block + 32 <= n) {  // a full tile
        #pragma unroll
        for (int i_reg = 0; i_reg < 4; ++i_reg) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                // insn.k.init
                acc_k[i_reg][j_reg] = 0.0f;
            }
        }
        for (int k_outer_first = 0; k_outer_first < min(2, (l + 31) / 32); ++k_outer_first) {
            const int a_tile_rule_first_point = 16*threadIdx.y + threadIdx.x;
            const int a_i = a_tile_rule_first_point / 4;
            const int a_k_vec = a_tile_rule_first_point % 4;
            // a_tile_rule_first
            copy_async_or_zeros<16>(&a_tile[k_outer_first][a_i][8*a_k_vec], a,
                    (32*i_block + a_i)*l + 32*k_outer_first + 8*a_k_vec,
                    32*k_outer_first + 8*a_k_vec < l ? 2*min(8, l - 32*k_outer_first - 8*a_k_vec) : 0);
            #pragma unroll
            for (int b_tile_rule_first_round = 0; b_tile_rule_first_round < 2; ++b_tile_rule_first_round) {
                const int b_tile_rule_first_point = 128*b_tile_rule_first_round + 16*threadIdx.y +
                        threadIdx.x;
                const int b_k = b_tile_rule_first_point / 8;
                const int b_j_vec = b_tile_rule_first_point % 8;
                // b_tile_rule_first
                copy_async_or_zeros<16>(&b_tile[k_outer_first][b_k][8*b_j_vec], b,
                        (32*k_outer_first + b_k)*m + 64*j_block + 8*b_j_vec,
                        32*k_outer_first + b_k < l ? 16 : 0);
            }
            end_copy_group();
        }
        // a_tile: a_tile_rule_first writes, insn.k.update reads
        // a_tile: a_tile_rule_first writes, insn.k.update_last reads
        // b_tile: b_tile_rule_first writes, insn.k.update reads
        // b_tile: b_tile_rule_first writes, insn.k.update_last reads
        wait_for_copies<0>();
        __syncthreads();
        for (int k_outer = 0; k_outer < (l - 1) / 32 - 2; ++k_outer) {
            const int a_tile_rule_point = 16*threadIdx.y + threadIdx.x;
            const int a_i = a_tile_rule_point / 4;
            const int a_k_vec = a_tile_rule_point % 4;
            // a_tile_rule
            copy_async<16>(&a_tile[(k_outer + 2) % 3][a_i][8*a_k_vec],
                    &a[(32*i_block + a_i)*l + 32*k_outer + 8*a_k_vec + 64]);
            #pragma unroll
            for (int b_tile_rule_round = 0; b_tile_rule_round < 2; ++b_tile_rule_round) {
                const int b_tile_rule_point = 128*b_tile_rule_round + 16*threadIdx.y + threadIdx.x;
                const int b_k = b_tile_rule_point / 8;
                const int b_j_vec = b_tile_rule_point % 8;
                // b_tile_rule
                copy_async<16>(&b_tile[(k_outer + 2) % 3][b_k][8*b_j_vec],
                        &b[(32*k_outer + b_k + 64)*m + 64*j_block + 8*b_j_vec]);
            }
            for (int k_inner = 0; k_inner < 32; ++k_inner) {
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 4; ++j_reg) {
                        // insn.k.update
                        acc_k[i_reg][j_reg] +=
                                (float)a_tile[k_outer % 3][8*i_reg +
                                    i_thread][k_inner]*(float)b_tile[k_outer % 3][k_inner][16*j_reg +
                                    j_thread];
                    }
                }
            }
            // a_tile: a_tile_rule writes, insn.k.update reads
            // b_tile: b_tile_rule writes, insn.k.update reads
            // a_tile: insn.k.update reads, a_tile_rule overwrites
            // b_tile: insn.k.update reads, b_tile_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        for (int k_outer_last = max(0, (l - 1) / 32 - 2); k_outer_last < (l + 31) / 32; ++k_outer_last) {
            if (32*k_outer_last + 64 < l) {
                const int a_tile_rule_last_point = 16*threadIdx.y + threadIdx.x;
                const int a_i = a_tile_rule_last_point / 4;
                const int a_k_vec = a_tile_rule_last_point % 4;
                // a_tile_rule_last
                copy_async_or_zeros<16>(&a_tile[(k_outer_last + 2) % 3][a_i][8*a_k_vec], a,
                        (32*i_block + a_i)*l + 32*k_outer_last + 8*a_k_vec + 64,
                        32*k_outer_last + 8*a_k_vec + 64 < l ?
                        2*min(8, l - 32*k_outer_last - 8*a_k_vec - 64) : 0);
                #pragma unroll
                for (int b_tile_rule_last_round = 0; b_tile_rule_last_round < 2; ++b_tile_rule_last_round) {
                    const int b_tile_rule_last_point = 128*b_tile_rule_last_round + 16*threadIdx.y +
                            threadIdx.x;
                    const int b_k = b_tile_rule_last_point / 8;
                    const int b_j_vec = b_tile_rule_last_point % 8;
                    // b_tile_rule_last
                    copy_async_or_zeros<16>(&b_tile[(k_outer_last + 2) % 3][b_k][8*b_j_vec], b,
                            (32*k_outer_last + b_k + 64)*m + 64*j_block + 8*b_j_vec,
                            32*k_outer_last + b_k + 64 < l ? 16 : 0);
                }
            }
            for (int k_inner = 0; k_inner < 32; ++k_inner) {
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 4; ++j_reg) {
                        // insn.k.update_last
                        acc_k[i_reg][j_reg] +=
                                (float)a_tile[k_outer_last % 3][8*i_reg +
                                    i_thread][k_inner]*(float)b_tile[k_outer_last % 3][k_inner][16*j_reg +
                                    j_thread];
                    }
                }
            }
            // a_tile: a_tile_rule_last writes, insn.k.update_last reads
            // b_tile: b_tile_rule_last writes, insn.k.update_last reads
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        #pragma unroll
        for (int i_reg = 0; i_reg < 4; ++i_reg) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                // insn
                c[(32*i_block + 8*i_reg + i_thread)*m + 64*j_block + 16*j_reg + j_thread] =
                        acc_k[i_reg][j_reg];
            }
        }
    } else {
        #pragma unroll
        for (int i_reg = 0; i_reg < 4; ++i_reg) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                // insn.k.init
                acc_k[i_reg][j_reg] = 0.0f;
            }
        }
        for (int k_outer_first = 0; k_outer_first < min(2, (l + 31) / 32); ++k_outer_first) {
            const int a_tile_rule_first_point = 16*threadIdx.y + threadIdx.x;
            const int a_i = a_tile_rule_first_point / 4;
            const int a_k_vec = a_tile_rule_first_point % 4;
            // a_tile_rule_first
            copy_async_or_zeros<16>(&a_tile[k_outer_first][a_i][8*a_k_vec], a,
                    (32*i_block + a_i)*l + 32*k_outer_first + 8*a_k_vec, 32*i_block + a_i < n &&
                    32*k_outer_first + 8*a_k_vec < l ? 2*min(8, l - 32*k_outer_first - 8*a_k_vec) : 0);
            #pragma unroll
            for (int b_tile_rule_first_round = 0; b_tile_rule_first_round < 2; ++b_tile_rule_first_round) {
                const int b_tile_rule_first_point = 128*b_tile_rule_first_round + 16*threadIdx.y +
                        threadIdx.x;
                const int b_k = b_tile_rule_first_point / 8;
                const int b_j_vec = b_tile_rule_first_point % 8;
                // b_tile_rule_first
                copy_async_or_zeros<16>(&b_tile[k_outer_first][b_k][8*b_j_vec], b,
                        (32*k_outer_first + b_k)*m + 64*j_block + 8*b_j_vec, 32*k_outer_first + b_k < l &&
                        64*j_block + 8*b_j_vec < m ? 2*min(8, m - 64*j_block - 8*b_j_vec) : 0);
            }
            end_copy_group();
        }
        // a_tile: a_tile_rule_first writes, insn.k.update reads
        // a_tile: a_tile_rule_first writes, insn.k.update_last reads
        // b_tile: b_tile_rule_first writes, insn.k.update reads
        // b_tile: b_tile_rule_first writes, insn.k.update_last reads
        wait_for_copies<0>();
        __syncthreads();
        for (int k_outer = 0; k_outer < (l - 1) / 32 - 2; ++k_outer) {
            const int a_tile_rule_point = 16*threadIdx.y + threadIdx.x;
            const int a_i = a_tile_rule_point / 4;
            const int a_k_vec = a_tile_rule_point % 4;
            // a_tile_rule
            copy_async_or_zeros<16>(&a_tile[(k_outer + 2) % 3][a_i][8*a_k_vec], a,
                    (32*i_block + a_i)*l + 32*k_outer + 8*a_k_vec + 64, 32*i_block + a_i < n ? 16 : 0);
            #pragma unroll
            for (int b_tile_rule_round = 0; b_tile_rule_round < 2; ++b_tile_rule_round) {
                const int b_tile_rule_point = 128*b_tile_rule_round + 16*threadIdx.y + threadIdx.x;
                const int b_k = b_tile_rule_point / 8;
                const int b_j_vec = b_tile_rule_point % 8;
                // b_tile_rule
                copy_async_or_zeros<16>(&b_tile[(k_outer + 2) % 3][b_k][8*b_j_vec], b,
                        (32*k_outer + b_k + 64)*m + 64*j_block + 8*b_j_vec,
                        64*j_block + 8*b_j_vec < m ? 2*min(8, m - 64*j_block - 8*b_j_vec) : 0);
            }
            for (int k_inner = 0; k_inner < 32; ++k_inner) {
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 4; ++j_reg) {
                        // insn.k.update
                        acc_k[i_reg][j_reg] +=
                                (float)a_tile[k_outer % 3][8*i_reg +
                                    i_thread][k_inner]*(float)b_tile[k_outer % 3][k_inner][16*j_reg +
                                    j_thread];
                    }
                }
            }
            // a_tile: a_tile_rule writes, insn.k.update reads
            // b_tile: b_tile_rule writes, insn.k.update reads
            // a_tile: insn.k.update reads, a_tile_rule overwrites
            // b_tile: insn.k.update reads, b_tile_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        for (int k_outer_last = max(0, (l - 1) / 32 - 2); k_outer_last < (l + 31) / 32; ++k_outer_last) {
            if (32*k_outer_last + 64 < l) {
                const int a_tile_rule_last_point = 16*threadIdx.y + threadIdx.x;
                const int a_i = a_tile_rule_last_point / 4;
                const int a_k_vec = a_tile_rule_last_point % 4;
                // a_tile_rule_last
                copy_async_or_zeros<16>(&a_tile[(k_outer_last + 2) % 3][a_i][8*a_k_vec], a,
                        (32*i_block + a_i)*l + 32*k_outer_last + 8*a_k_vec + 64, 32*i_block + a_i < n &&
                        32*k_outer_last + 8*a_k_vec + 64 < l ?
                        2*min(8, l - 32*k_outer_last - 8*a_k_vec - 64) : 0);
                #pragma unroll
                for (int b_tile_rule_last_round = 0; b_tile_rule_last_round < 2; ++b_tile_rule_last_round) {
                    const int b_tile_rule_last_point = 128*b_tile_rule_last_round + 16*threadIdx.y +
                            threadIdx.x;
                    const int b_k = b_tile_rule_last_point / 8;
                    const int b_j_vec = b_tile_rule_last_point % 8;
                    // b_tile_rule_last
                    copy_async_or_zeros<16>(&b_tile[(k_outer_last + 2) % 3][b_k][8*b_j_vec], b,
                            (32*k_outer_last + b_k + 64)*m + 64*j_block + 8*b_j_vec,
                            32*k_outer_last + b_k + 64 < l &&
                            64*j_block + 8*b_j_vec < m ? 2*min(8, m - 64*j_block - 8*b_j_vec) : 0);
                }
            }
            for (int k_inner = 0; k_inner < 32; ++k_inner) {
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 4; ++j_reg) {
                        // insn.k.update_last
                        acc_k[i_reg][j_reg] +=
                                (float)a_tile[k_outer_last % 3][8*i_reg +
                                    i_thread][k_inner]*(float)b_tile[k_outer_last % 3][k_inner][16*j_reg +
                                    j_thread];
                    }
                }
            }
            // a_tile: a_tile_rule_last writes, insn.k.update_last reads
            // b_tile: b_tile_rule_last writes, insn.k.update_last reads
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        if (64*j_block + j_thread < m && 32*i_block + i_thread < n) {
            #pragma unroll
            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    if (64*j_block + 16*j_reg + j_thread < m && 32*i_block + 8*i_reg + i_thread < n) {
                        // insn
                        c[(32*i_block + 8*i_reg + i_thread)*m + 64*j_block + 16*j_reg + j_thread] =
                                acc_k[i_reg][j_reg];
                    }
                }
            }
        }
    }
}
