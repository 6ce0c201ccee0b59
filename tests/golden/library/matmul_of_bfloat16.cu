// proven: order (23 dependences), in bounds, no read before a write, no races; barriers: 3, each needed
// vector accesses: a, b at multiples of 16 bytes, row by row; c at multiples of 4 bytes, row by row; other
//   calls run a text without them

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
// the 32 bits that begin at x: one register with elements that follow each other
template <class T> __device__ __forceinline__ unsigned int &word_at(T &x)
{
    return reinterpret_cast<unsigned int &>(x);
}
// all lanes of a warp: c += a*b, 16x8 by 16x16 and 16x8. Elements number e of lane t:
// a[8*(e / 2 % 2) + t / 4][8*(e / 4) + 2*(t % 4) + e % 2]
// b[8*(e / 2) + 2*(t % 4) + e % 2][t / 4]
// c[8*(e / 2) + t / 4][2*(t % 4) + e % 2]
__device__ __forceinline__ void mma_m16n8k16_f32_bf16(float &c0, float &c1, float &c2, float &c3,
    unsigned int a0, unsigned int a1, unsigned int a2, unsigned int a3, unsigned int b0, unsigned int b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// all lanes of a warp: lane t provides the address of row t % 8 of matrix t / 8, 16 bytes in shared memory, and gets
// word t % 4 of row t / 4 of each matrix
__device__ __forceinline__ void ldmatrix_x4(unsigned int &r0, unsigned int &r1, unsigned int &r2, unsigned int &r3,
    const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
        : "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))) : "memory");
}
// all lanes of a warp: lane t provides the address of row t % 8 of matrix t / 8, 16 bytes in shared memory, and gets
// word t % 4 of column t / 4 of each matrix
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned int &r0, unsigned int &r1, unsigned int &r2, unsigned int &r3,
    const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
        : "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))) : "memory");
}
__device__ __forceinline__ int floor_div_i32(int a, int b)
{
    const int q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// the launch gives 147456 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(256)
matmul(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b,
    __nv_bfloat16 *__restrict__ c, const int l, const int m, const int n)
{
    const int i_group = blockIdx.y;
    const int j_block = (int)blockIdx.x / 8;
    const int i_block = (int)blockIdx.x % 8;
    const int i_warp = (int)threadIdx.x / 64;
    const int j_warp = (int)threadIdx.x / 32 % 2;
    const int i_box_lane = (int)threadIdx.x / 4 % 8;
    const int j_box_lane = (int)threadIdx.x % 4;
    float acc_k[4][2][8][2];
    extern __shared__ __align__(16) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8))
    __nv_bfloat16 (&a_tile)[3][256][64] = *reinterpret_cast<__nv_bfloat16 (*)[3][256][64]>(shared_memory_);
    // column c of row r is at c ^ (8*(r % 8))
    __nv_bfloat16 (&b_tile)[3][64][128] =
            *reinterpret_cast<__nv_bfloat16 (*)[3][64][128]>(shared_memory_ + 98304);
    alignas(4) __nv_bfloat16 a_fragment[4][2][2][2];
    alignas(4) __nv_bfloat16 b_fragment[8][2][2];

    if (128*j_block + 128 <= m && 2048*i_group + 256*i_block + 256 <= n) {  // a full tile
        #pragma unroll
        for (int i_reg = 0; i_reg < 4; ++i_reg) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 8; ++j_reg) {
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                        // insn.k.init
                        acc_k[i_reg][i_box_part][j_reg][j_box_item] = 0.0f;
                    }
                }
            }
        }
        for (int k_outer_first = 0; k_outer_first < min(2, (l + 63) / 64); ++k_outer_first) {
            #pragma unroll
            for (int a_tile_rule_first_round = 0; a_tile_rule_first_round < 8; ++a_tile_rule_first_round) {
                const int a_tile_rule_first_point = 256*a_tile_rule_first_round + threadIdx.x;
                const int a_i = a_tile_rule_first_point / 8;
                const int a_k_outer = a_tile_rule_first_point % 8;
                // a_tile_rule_first
                copy_async_or_zeros<16>(&a_tile[k_outer_first][a_i][(8*a_k_outer) ^ (8*(a_i % 8))], a,
                        (256*i_block + 2048*i_group + a_i)*l + 64*k_outer_first + 8*a_k_outer,
                        64*k_outer_first + 8*a_k_outer < l ? 2*min(8, l - 64*k_outer_first - 8*a_k_outer) :
                        0);
            }
            #pragma unroll
            for (int b_tile_rule_first_round = 0; b_tile_rule_first_round < 4; ++b_tile_rule_first_round) {
                const int b_tile_rule_first_point = 256*b_tile_rule_first_round + threadIdx.x;
                const int b_k = b_tile_rule_first_point / 16;
                const int b_j_outer = b_tile_rule_first_point % 16;
                // b_tile_rule_first
                copy_async_or_zeros<16>(&b_tile[k_outer_first][b_k][(8*b_j_outer) ^ (8*(b_k % 8))], b,
                        (64*k_outer_first + b_k)*m + 128*j_block + 8*b_j_outer,
                        64*k_outer_first + b_k < l ? 16 : 0);
            }
            end_copy_group();
        }
        // a_tile: a_tile_rule_first writes, a_fragment_rule reads
        // a_tile: a_tile_rule_first writes, a_fragment_rule_last reads
        // b_tile: b_tile_rule_first writes, b_fragment_rule reads
        // b_tile: b_tile_rule_first writes, b_fragment_rule_last reads
        wait_for_copies<0>();
        __syncthreads();
        for (int k_outer = 0; k_outer < floor_div_i32(l - 1, 64) - 2; ++k_outer) {
            #pragma unroll
            for (int a_tile_rule_round = 0; a_tile_rule_round < 8; ++a_tile_rule_round) {
                const int a_tile_rule_point = 256*a_tile_rule_round + threadIdx.x;
                const int a_i = a_tile_rule_point / 8;
                const int a_k_outer = a_tile_rule_point % 8;
                // a_tile_rule
                copy_async<16>(&a_tile[(k_outer + 2) % 3][a_i][(8*a_k_outer) ^ (8*(a_i % 8))],
                        &a[(256*i_block + 2048*i_group + a_i)*l + 64*k_outer + 8*a_k_outer + 128]);
            }
            #pragma unroll
            for (int b_tile_rule_round = 0; b_tile_rule_round < 4; ++b_tile_rule_round) {
                const int b_tile_rule_point = 256*b_tile_rule_round + threadIdx.x;
                const int b_k = b_tile_rule_point / 16;
                const int b_j_outer = b_tile_rule_point % 16;
                // b_tile_rule
                copy_async<16>(&b_tile[(k_outer + 2) % 3][b_k][(8*b_j_outer) ^ (8*(b_k % 8))],
                        &b[(64*k_outer + b_k + 128)*m + 128*j_block + 8*b_j_outer]);
            }
            #pragma unroll
            for (int k_step = 0; k_step < 4; ++k_step) {
                #pragma unroll
                for (int a_tile_dim_0_box = 0; a_tile_dim_0_box < 4; ++a_tile_dim_0_box) {
                    // a_fragment_rule
                    ldmatrix_x4(word_at(a_fragment[a_tile_dim_0_box][0][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][0][1][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][1][0]),
                            &a_tile[k_outer % 3][64*i_warp + 16*a_tile_dim_0_box +
                                (int)threadIdx.x % 16][(16*k_step +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int b_tile_dim_1_box_outer = 0; b_tile_dim_1_box_outer < 4; ++b_tile_dim_1_box_outer) {
                    // b_fragment_rule
                    ldmatrix_x4_trans(word_at(b_fragment[2*b_tile_dim_1_box_outer][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer][1][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][1][0]),
                            &b_tile[k_outer % 3][16*k_step +
                                (int)threadIdx.x % 16][(64*j_warp + 16*b_tile_dim_1_box_outer +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 8; ++j_reg) {
                        // insn.k.update
                        mma_m16n8k16_f32_bf16(acc_k[i_reg][0][j_reg][0], acc_k[i_reg][0][j_reg][1],
                                acc_k[i_reg][1][j_reg][0], acc_k[i_reg][1][j_reg][1],
                                word_at(a_fragment[i_reg][0][0][0]), word_at(a_fragment[i_reg][0][1][0]),
                                word_at(a_fragment[i_reg][1][0][0]), word_at(a_fragment[i_reg][1][1][0]),
                                word_at(b_fragment[j_reg][0][0]), word_at(b_fragment[j_reg][1][0]));
                    }
                }
            }
            // a_tile: a_tile_rule writes, a_fragment_rule reads
            // b_tile: b_tile_rule writes, b_fragment_rule reads
            // a_tile: a_fragment_rule reads, a_tile_rule overwrites
            // b_tile: b_fragment_rule reads, b_tile_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        if (129 <= l) {
            const int k_outer_last = (l - 1) / 64 - 2;
            #pragma unroll
            for (int a_tile_rule_last_round = 0; a_tile_rule_last_round < 8; ++a_tile_rule_last_round) {
                const int a_tile_rule_last_point = 256*a_tile_rule_last_round + threadIdx.x;
                const int a_i = a_tile_rule_last_point / 8;
                const int a_k_outer = a_tile_rule_last_point % 8;
                // a_tile_rule_last
                copy_async_or_zeros<16>(&a_tile[(k_outer_last + 2) % 3][a_i][(8*a_k_outer) ^ (8*(a_i % 8))],
                        a, (256*i_block + 2048*i_group + a_i)*l + 64*k_outer_last + 8*a_k_outer + 128,
                        64*k_outer_last + 8*a_k_outer + 128 < l ?
                        2*min(8, l - 64*k_outer_last - 8*a_k_outer - 128) : 0);
            }
            #pragma unroll
            for (int b_tile_rule_last_round = 0; b_tile_rule_last_round < 4; ++b_tile_rule_last_round) {
                const int b_tile_rule_last_point = 256*b_tile_rule_last_round + threadIdx.x;
                const int b_k = b_tile_rule_last_point / 16;
                const int b_j_outer = b_tile_rule_last_point % 16;
                // b_tile_rule_last
                copy_async_or_zeros<16>(&b_tile[(k_outer_last + 2) % 3][b_k][(8*b_j_outer) ^ (8*(b_k % 8))],
                        b, (64*k_outer_last + b_k + 128)*m + 128*j_block + 8*b_j_outer,
                        64*k_outer_last + b_k + 128 < l ? 16 : 0);
            }
        }
        for (int k_outer_last =
                max(0, floor_div_i32(l - 1, 64) - 2); k_outer_last < (l + 63) / 64; ++k_outer_last) {
            #pragma unroll
            for (int k_step = 0; k_step < 4; ++k_step) {
                #pragma unroll
                for (int a_tile_dim_0_box = 0; a_tile_dim_0_box < 4; ++a_tile_dim_0_box) {
                    // a_fragment_rule_last
                    ldmatrix_x4(word_at(a_fragment[a_tile_dim_0_box][0][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][0][1][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][1][0]),
                            &a_tile[k_outer_last % 3][64*i_warp + 16*a_tile_dim_0_box +
                                (int)threadIdx.x % 16][(16*k_step +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int b_tile_dim_1_box_outer = 0; b_tile_dim_1_box_outer < 4; ++b_tile_dim_1_box_outer) {
                    // b_fragment_rule_last
                    ldmatrix_x4_trans(word_at(b_fragment[2*b_tile_dim_1_box_outer][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer][1][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][1][0]),
                            &b_tile[k_outer_last % 3][16*k_step +
                                (int)threadIdx.x % 16][(64*j_warp + 16*b_tile_dim_1_box_outer +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 8; ++j_reg) {
                        // insn.k.update_last
                        mma_m16n8k16_f32_bf16(acc_k[i_reg][0][j_reg][0], acc_k[i_reg][0][j_reg][1],
                                acc_k[i_reg][1][j_reg][0], acc_k[i_reg][1][j_reg][1],
                                word_at(a_fragment[i_reg][0][0][0]), word_at(a_fragment[i_reg][0][1][0]),
                                word_at(a_fragment[i_reg][1][0][0]), word_at(a_fragment[i_reg][1][1][0]),
                                word_at(b_fragment[j_reg][0][0]), word_at(b_fragment[j_reg][1][0]));
                    }
                }
            }
            // a_tile: a_tile_rule_last writes, a_fragment_rule_last reads
            // b_tile: b_tile_rule_last writes, b_fragment_rule_last reads
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        #pragma unroll
        for (int i_reg = 0; i_reg < 4; ++i_reg) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 8; ++j_reg) {
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    alignas(4) __nv_bfloat16 c_vec[2];
                    #pragma unroll
                    for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                        // insn
                        c_vec[j_box_item] = (__nv_bfloat16)acc_k[i_reg][i_box_part][j_reg][j_box_item];
                    }
                    *reinterpret_cast<unsigned int *>(&c[(2048*i_group + 256*i_block + 64*i_warp +
                                16*i_reg + 8*i_box_part + i_box_lane)*m + 128*j_block + 64*j_warp +
                                8*j_reg + 2*j_box_lane]) = *reinterpret_cast<const unsigned int *>(c_vec);
                }
            }
        }
    } else if (2048*i_group + 256*i_block < n) {
        #pragma unroll
        for (int i_reg = 0; i_reg < 4; ++i_reg) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 8; ++j_reg) {
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                        // insn.k.init
                        acc_k[i_reg][i_box_part][j_reg][j_box_item] = 0.0f;
                    }
                }
            }
        }
        for (int k_outer_first = 0; k_outer_first < min(2, (l + 63) / 64); ++k_outer_first) {
            #pragma unroll
            for (int a_tile_rule_first_round = 0; a_tile_rule_first_round < 8; ++a_tile_rule_first_round) {
                const int a_tile_rule_first_point = 256*a_tile_rule_first_round + threadIdx.x;
                const int a_i = a_tile_rule_first_point / 8;
                const int a_k_outer = a_tile_rule_first_point % 8;
                // a_tile_rule_first
                copy_async_or_zeros<16>(&a_tile[k_outer_first][a_i][(8*a_k_outer) ^ (8*(a_i % 8))], a,
                        (256*i_block + 2048*i_group + a_i)*l + 64*k_outer_first + 8*a_k_outer,
                        2048*i_group + 256*i_block + a_i < n &&
                        64*k_outer_first + 8*a_k_outer < l ? 2*min(8, l - 64*k_outer_first - 8*a_k_outer) :
                        0);
            }
            #pragma unroll
            for (int b_tile_rule_first_round = 0; b_tile_rule_first_round < 4; ++b_tile_rule_first_round) {
                const int b_tile_rule_first_point = 256*b_tile_rule_first_round + threadIdx.x;
                const int b_k = b_tile_rule_first_point / 16;
                const int b_j_outer = b_tile_rule_first_point % 16;
                // b_tile_rule_first
                copy_async_or_zeros<16>(&b_tile[k_outer_first][b_k][(8*b_j_outer) ^ (8*(b_k % 8))], b,
                        (64*k_outer_first + b_k)*m + 128*j_block + 8*b_j_outer,
                        64*k_outer_first + b_k < l &&
                        128*j_block + 8*b_j_outer < m ? 2*min(8, m - 128*j_block - 8*b_j_outer) : 0);
            }
            end_copy_group();
        }
        // a_tile: a_tile_rule_first writes, a_fragment_rule reads
        // a_tile: a_tile_rule_first writes, a_fragment_rule_last reads
        // b_tile: b_tile_rule_first writes, b_fragment_rule reads
        // b_tile: b_tile_rule_first writes, b_fragment_rule_last reads
        wait_for_copies<0>();
        __syncthreads();
        for (int k_outer = 0; k_outer < floor_div_i32(l - 1, 64) - 2; ++k_outer) {
            #pragma unroll
            for (int a_tile_rule_round = 0; a_tile_rule_round < 8; ++a_tile_rule_round) {
                const int a_tile_rule_point = 256*a_tile_rule_round + threadIdx.x;
                const int a_i = a_tile_rule_point / 8;
                const int a_k_outer = a_tile_rule_point % 8;
                // a_tile_rule
                copy_async_or_zeros<16>(&a_tile[(k_outer + 2) % 3][a_i][(8*a_k_outer) ^ (8*(a_i % 8))], a,
                        (256*i_block + 2048*i_group + a_i)*l + 64*k_outer + 8*a_k_outer + 128,
                        2048*i_group + 256*i_block + a_i < n ? 16 : 0);
            }
            #pragma unroll
            for (int b_tile_rule_round = 0; b_tile_rule_round < 4; ++b_tile_rule_round) {
                const int b_tile_rule_point = 256*b_tile_rule_round + threadIdx.x;
                const int b_k = b_tile_rule_point / 16;
                const int b_j_outer = b_tile_rule_point % 16;
                // b_tile_rule
                copy_async_or_zeros<16>(&b_tile[(k_outer + 2) % 3][b_k][(8*b_j_outer) ^ (8*(b_k % 8))], b,
                        (64*k_outer + b_k + 128)*m + 128*j_block + 8*b_j_outer,
                        128*j_block + 8*b_j_outer < m ? 2*min(8, m - 128*j_block - 8*b_j_outer) : 0);
            }
            #pragma unroll
            for (int k_step = 0; k_step < 4; ++k_step) {
                #pragma unroll
                for (int a_tile_dim_0_box = 0; a_tile_dim_0_box < 4; ++a_tile_dim_0_box) {
                    // a_fragment_rule
                    ldmatrix_x4(word_at(a_fragment[a_tile_dim_0_box][0][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][0][1][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][1][0]),
                            &a_tile[k_outer % 3][64*i_warp + 16*a_tile_dim_0_box +
                                (int)threadIdx.x % 16][(16*k_step +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int b_tile_dim_1_box_outer = 0; b_tile_dim_1_box_outer < 4; ++b_tile_dim_1_box_outer) {
                    // b_fragment_rule
                    ldmatrix_x4_trans(word_at(b_fragment[2*b_tile_dim_1_box_outer][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer][1][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][1][0]),
                            &b_tile[k_outer % 3][16*k_step +
                                (int)threadIdx.x % 16][(64*j_warp + 16*b_tile_dim_1_box_outer +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 8; ++j_reg) {
                        // insn.k.update
                        mma_m16n8k16_f32_bf16(acc_k[i_reg][0][j_reg][0], acc_k[i_reg][0][j_reg][1],
                                acc_k[i_reg][1][j_reg][0], acc_k[i_reg][1][j_reg][1],
                                word_at(a_fragment[i_reg][0][0][0]), word_at(a_fragment[i_reg][0][1][0]),
                                word_at(a_fragment[i_reg][1][0][0]), word_at(a_fragment[i_reg][1][1][0]),
                                word_at(b_fragment[j_reg][0][0]), word_at(b_fragment[j_reg][1][0]));
                    }
                }
            }
            // a_tile: a_tile_rule writes, a_fragment_rule reads
            // b_tile: b_tile_rule writes, b_fragment_rule reads
            // a_tile: a_fragment_rule reads, a_tile_rule overwrites
            // b_tile: b_fragment_rule reads, b_tile_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        if (129 <= l) {
            const int k_outer_last = (l - 1) / 64 - 2;
            #pragma unroll
            for (int a_tile_rule_last_round = 0; a_tile_rule_last_round < 8; ++a_tile_rule_last_round) {
                const int a_tile_rule_last_point = 256*a_tile_rule_last_round + threadIdx.x;
                const int a_i = a_tile_rule_last_point / 8;
                const int a_k_outer = a_tile_rule_last_point % 8;
                // a_tile_rule_last
                copy_async_or_zeros<16>(&a_tile[(k_outer_last + 2) % 3][a_i][(8*a_k_outer) ^ (8*(a_i % 8))],
                        a, (256*i_block + 2048*i_group + a_i)*l + 64*k_outer_last + 8*a_k_outer + 128,
                        2048*i_group + 256*i_block + a_i < n &&
                        64*k_outer_last + 8*a_k_outer + 128 < l ?
                        2*min(8, l - 64*k_outer_last - 8*a_k_outer - 128) : 0);
            }
            #pragma unroll
            for (int b_tile_rule_last_round = 0; b_tile_rule_last_round < 4; ++b_tile_rule_last_round) {
                const int b_tile_rule_last_point = 256*b_tile_rule_last_round + threadIdx.x;
                const int b_k = b_tile_rule_last_point / 16;
                const int b_j_outer = b_tile_rule_last_point % 16;
                // b_tile_rule_last
                copy_async_or_zeros<16>(&b_tile[(k_outer_last + 2) % 3][b_k][(8*b_j_outer) ^ (8*(b_k % 8))],
                        b, (64*k_outer_last + b_k + 128)*m + 128*j_block + 8*b_j_outer,
                        64*k_outer_last + b_k + 128 < l &&
                        128*j_block + 8*b_j_outer < m ? 2*min(8, m - 128*j_block - 8*b_j_outer) : 0);
            }
        }
        for (int k_outer_last =
                max(0, floor_div_i32(l - 1, 64) - 2); k_outer_last < (l + 63) / 64; ++k_outer_last) {
            #pragma unroll
            for (int k_step = 0; k_step < 4; ++k_step) {
                #pragma unroll
                for (int a_tile_dim_0_box = 0; a_tile_dim_0_box < 4; ++a_tile_dim_0_box) {
                    // a_fragment_rule_last
                    ldmatrix_x4(word_at(a_fragment[a_tile_dim_0_box][0][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][0][1][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][0][0]),
                            word_at(a_fragment[a_tile_dim_0_box][1][1][0]),
                            &a_tile[k_outer_last % 3][64*i_warp + 16*a_tile_dim_0_box +
                                (int)threadIdx.x % 16][(16*k_step +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int b_tile_dim_1_box_outer = 0; b_tile_dim_1_box_outer < 4; ++b_tile_dim_1_box_outer) {
                    // b_fragment_rule_last
                    ldmatrix_x4_trans(word_at(b_fragment[2*b_tile_dim_1_box_outer][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer][1][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][0][0]),
                            word_at(b_fragment[2*b_tile_dim_1_box_outer + 1][1][0]),
                            &b_tile[k_outer_last % 3][16*k_step +
                                (int)threadIdx.x % 16][(64*j_warp + 16*b_tile_dim_1_box_outer +
                                8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
                }
                #pragma unroll
                for (int i_reg = 0; i_reg < 4; ++i_reg) {
                    #pragma unroll
                    for (int j_reg = 0; j_reg < 8; ++j_reg) {
                        // insn.k.update_last
                        mma_m16n8k16_f32_bf16(acc_k[i_reg][0][j_reg][0], acc_k[i_reg][0][j_reg][1],
                                acc_k[i_reg][1][j_reg][0], acc_k[i_reg][1][j_reg][1],
                                word_at(a_fragment[i_reg][0][0][0]), word_at(a_fragment[i_reg][0][1][0]),
                                word_at(a_fragment[i_reg][1][0][0]), word_at(a_fragment[i_reg][1][1][0]),
                                word_at(b_fragment[j_reg][0][0]), word_at(b_fragment[j_reg][1][0]));
                    }
                }
            }
            // a_tile: a_tile_rule_last writes, a_fragment_rule_last reads
            // b_tile: b_tile_rule_last writes, b_fragment_rule_last reads
            end_copy_group();
            wait_for_copies<1>();
            __syncthreads();
        }
        if (128*j_block + 64*j_warp + 2*j_box_lane < m &&
                2048*i_group + 256*i_block + 64*i_warp + i_box_lane < n) {
            #pragma unroll
            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 8; ++j_reg) {
                    #pragma unroll
                    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                        #pragma unroll
                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                            if (128*j_block + 64*j_warp + 8*j_reg + 2*j_box_lane + j_box_item < m &&
                                    2048*i_group + 256*i_block + 64*i_warp + 16*i_reg + 8*i_box_part +
                                    i_box_lane < n) {
                                // insn
                                c[(2048*i_group + 256*i_block + 64*i_warp + 16*i_reg + 8*i_box_part +
                                            i_box_lane)*m + 128*j_block + 64*j_warp + 8*j_reg +
                                            2*j_box_lane + j_box_item] =
                                        (__nv_bfloat16)acc_k[i_reg][i_box_part][j_reg][j_box_item];
                            }
                        }
                    }
                }
            }
        }
    }
}
