// proven: order (10 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: c at multiples of 4 bytes, row by row; other calls run a text without them
// tensor maps: a, b at multiples of 16 bytes, row by row; other calls are refused

#include <cuda_bf16.h>
#ifdef __CUDACC_RTC__
struct __align__(64) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif
// thread 0 initializes mbarriers. A phase ends after ARRIVALS arrivals and all bytes that they announce.
template <int ARRIVALS, int COUNT> __device__ __forceinline__ void start_phases(unsigned long long (&mbarriers)[COUNT])
{
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
        for (int i = 0; i < COUNT; ++i)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                :: "r"(static_cast<unsigned int>(__cvta_generic_to_shared(&mbarriers[i]))), "n"(ARRIVALS) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
}
// TMA copies a box, of this number of bytes, of the array that the map describes to shared memory. The thread arrives
// at the mbarrier with these bytes; its phase ends when all bytes have landed. With a swizzle of 16*n bytes, piece p of
// 16 bytes of the 128 bytes number r is stored as piece p ^ (r % n).
__device__ __forceinline__ void load_box_2d(void *to, const CUtensorMap &map, unsigned int bytes,
    unsigned long long *mbarrier, int start_0, int start_1)
{
    const unsigned int box = __cvta_generic_to_shared(to), address = __cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];"
        :: "r"(box), "l"(&map), "r"(address), "r"(start_1), "r"(start_0) : "memory");
}
// waits until the phase of this parity has ended, which is the current phase of the mbarrier or the one before it
__device__ __forceinline__ void wait_for_phase(unsigned long long *mbarrier, int parity)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    for (unsigned int ended = 0; !ended;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(ended) : "r"(address), "r"(parity) : "memory");
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

// a_map_64x64_swizzled: boxes of 64 x 64 elements of a[n][l]
// b_map_64x64_swizzled: boxes of 64 x 64 elements of b[m][l]
// the launch gives 49176 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(128)
matmul(__nv_bfloat16 *__restrict__ c, const __grid_constant__ CUtensorMap a_map_64x64_swizzled,
    const __grid_constant__ CUtensorMap b_map_64x64_swizzled, const int l, const int m, const int n)
{
    const int i_block = blockIdx.y;
    const int j_block = blockIdx.x;
    const int i_warp = (int)threadIdx.x / 64;
    const int j_warp = (int)threadIdx.x / 32 % 2;
    const int i_box_lane = (int)threadIdx.x / 4 % 8;
    const int j_box_lane = (int)threadIdx.x % 4;
    float acc_k[2][2][4][2];
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&a_tile)[3][64][64] = *reinterpret_cast<__nv_bfloat16 (*)[3][64][64]>(shared_memory_);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&b_tile)[3][64][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[3][64][64]>(shared_memory_ + 24576);
    alignas(4) __nv_bfloat16 a_fragment[2][2][2][2];
    alignas(4) __nv_bfloat16 b_fragment[4][2][2];
    // mbarriers: a phase ends when the copies to a_tile and b_tile have landed
    unsigned long long (&tiles_full)[3] =
            *reinterpret_cast<unsigned long long (*)[3]>(shared_memory_ + 49152);

    // all threads use the mbarriers after thread 0 prepared them
    start_phases<2>(tiles_full);
    __syncthreads();
    #pragma unroll
    for (int i_reg = 0; i_reg < 2; ++i_reg) {
        #pragma unroll
        for (int j_reg = 0; j_reg < 4; ++j_reg) {
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
    if ((int)threadIdx.x == 0) {
        for (int k_outer_first = 0; k_outer_first < min(2, (l + 63) / 64); ++k_outer_first) {
            // a_tile_rule_first
            load_box_2d(&a_tile[k_outer_first][0][0], a_map_64x64_swizzled, 8192,
                    &tiles_full[k_outer_first], 64*i_block, 64*k_outer_first);
            // b_tile_rule_first
            load_box_2d(&b_tile[k_outer_first][0][0], b_map_64x64_swizzled, 8192,
                    &tiles_full[k_outer_first], 64*j_block, 64*k_outer_first);
        }
    }
    for (int k_outer = 0; k_outer < (l + 63) / 64; ++k_outer) {
        if (64*k_outer + 128 < l) {
            if ((int)threadIdx.x == 0) {
                // a_tile_rule
                load_box_2d(&a_tile[(k_outer + 2) % 3][0][0], a_map_64x64_swizzled, 8192,
                        &tiles_full[(k_outer + 2) % 3], 64*i_block, 64*k_outer + 128);
                // b_tile_rule
                load_box_2d(&b_tile[(k_outer + 2) % 3][0][0], b_map_64x64_swizzled, 8192,
                        &tiles_full[(k_outer + 2) % 3], 64*j_block, 64*k_outer + 128);
            }
        }
        // a_tile: a_tile_rule_first writes, a_fragment_rule reads
        // a_tile: a_tile_rule writes, a_fragment_rule reads
        // b_tile: b_tile_rule_first writes, b_fragment_rule reads
        // b_tile: b_tile_rule writes, b_fragment_rule reads
        wait_for_phase(&tiles_full[k_outer % 3], k_outer / 3 % 2);
        #pragma unroll
        for (int k_step = 0; k_step < 4; ++k_step) {
            #pragma unroll
            for (int a_tile_dim_0_box = 0; a_tile_dim_0_box < 2; ++a_tile_dim_0_box) {
                // a_fragment_rule
                ldmatrix_x4(word_at(a_fragment[a_tile_dim_0_box][0][0][0]),
                        word_at(a_fragment[a_tile_dim_0_box][0][1][0]),
                        word_at(a_fragment[a_tile_dim_0_box][1][0][0]),
                        word_at(a_fragment[a_tile_dim_0_box][1][1][0]),
                        &a_tile[k_outer % 3][32*i_warp + 16*a_tile_dim_0_box +
                            (int)threadIdx.x % 16][(16*k_step +
                            8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8))]);
            }
            #pragma unroll
            for (int b_tile_dim_0_box_outer = 0; b_tile_dim_0_box_outer < 2; ++b_tile_dim_0_box_outer) {
                // b_fragment_rule
                ldmatrix_x4(word_at(b_fragment[2*b_tile_dim_0_box_outer][0][0]),
                        word_at(b_fragment[2*b_tile_dim_0_box_outer][1][0]),
                        word_at(b_fragment[2*b_tile_dim_0_box_outer + 1][0][0]),
                        word_at(b_fragment[2*b_tile_dim_0_box_outer + 1][1][0]),
                        &b_tile[k_outer % 3][32*j_warp + 16*b_tile_dim_0_box_outer +
                            8*((int)threadIdx.x / 16 % 2) +
                            (int)threadIdx.x % 8][(16*k_step +
                            8*((int)threadIdx.x / 8 % 2)) ^ (8*((int)threadIdx.x % 8))]);
            }
            #pragma unroll
            for (int i_reg = 0; i_reg < 2; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    // insn.k.update
                    mma_m16n8k16_f32_bf16(acc_k[i_reg][0][j_reg][0], acc_k[i_reg][0][j_reg][1],
                            acc_k[i_reg][1][j_reg][0], acc_k[i_reg][1][j_reg][1],
                            word_at(a_fragment[i_reg][0][0][0]), word_at(a_fragment[i_reg][0][1][0]),
                            word_at(a_fragment[i_reg][1][0][0]), word_at(a_fragment[i_reg][1][1][0]),
                            word_at(b_fragment[j_reg][0][0]), word_at(b_fragment[j_reg][1][0]));
                }
            }
        }
        // a_tile: a_fragment_rule reads, a_tile_rule overwrites
        // b_tile: b_fragment_rule reads, b_tile_rule overwrites
        __syncthreads();
    }
    if (64*j_block + 32*j_warp + 2*j_box_lane < m && 64*i_block + 32*i_warp + i_box_lane < n) {
        if (64*j_block + 64 <= m && 64*i_block + 64 <= n) {  // a full tile
            #pragma unroll
            for (int i_reg = 0; i_reg < 2; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    #pragma unroll
                    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                        alignas(4) __nv_bfloat16 c_vec[2];
                        #pragma unroll
                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                            // insn
                            c_vec[j_box_item] = (__nv_bfloat16)acc_k[i_reg][i_box_part][j_reg][j_box_item];
                        }
                        *reinterpret_cast<unsigned int *>(&c[(64*i_block + 32*i_warp + 16*i_reg +
                                    8*i_box_part + i_box_lane)*m + 64*j_block + 32*j_warp + 8*j_reg +
                                    2*j_box_lane]) = *reinterpret_cast<const unsigned int *>(c_vec);
                    }
                }
            }
        } else {
            #pragma unroll
            for (int i_reg = 0; i_reg < 2; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    #pragma unroll
                    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                        #pragma unroll
                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                            if (64*j_block + 32*j_warp + 8*j_reg + 2*j_box_lane + j_box_item < m &&
                                    64*i_block + 32*i_warp + 16*i_reg + 8*i_box_part + i_box_lane < n) {
                                // insn
                                c[(64*i_block + 32*i_warp + 16*i_reg + 8*i_box_part + i_box_lane)*m +
                                            64*j_block + 32*j_warp + 8*j_reg + 2*j_box_lane + j_box_item] =
                                        (__nv_bfloat16)acc_k[i_reg][i_box_part][j_reg][j_box_item];
                            }
                        }
                    }
                }
            }
        }
    }
}
