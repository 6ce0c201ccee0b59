// proven: order (9 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// tensor maps: c at multiples of 16 bytes, row by row; other calls are refused

#include <cuda_bf16.h>
#ifdef __CUDACC_RTC__
struct __align__(64) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif
// commits the stores by TMA that the thread started since the last commit as one group
__device__ __forceinline__ void end_store_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// waits until TMA has read the shared memory of all store groups of the thread but the NEWEST newest
template <int NEWEST> __device__ __forceinline__ void wait_for_stores()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(NEWEST) : "memory");
}
// makes the thread's stores to shared memory visible to the matrix units and to TMA (asynchronous proxy)
__device__ __forceinline__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// TMA: a box in shared memory goes to the array that the map describes, without the elements outside of the array
__device__ __forceinline__ void store_box_2d(const void *from, const CUtensorMap &map, int start_0, int start_1)
{
    const unsigned int box = __cvta_generic_to_shared(from);
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&map), "r"(box), "r"(start_1), "r"(start_0) : "memory");
}
// the 32 bits that begin at x: one register with elements that follow each other
template <class T> __device__ __forceinline__ unsigned int &word_at(T &x)
{
    return reinterpret_cast<unsigned int &>(x);
}
// one register with these elements, the first one in its lowest bits
template <class T, class... Others> __device__ __forceinline__ unsigned int packed(T first, Others... others)
{
    alignas(4) const T all[] = {first, others...};
    return reinterpret_cast<const unsigned int &>(all);
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
// all lanes of a warp: lane t provides the address of row t % 8 of matrix t / 8, 16 bytes in shared memory, and has
// word t % 4 of row t / 4 of each matrix
__device__ __forceinline__ void stmatrix_x4(unsigned int r0, unsigned int r1, unsigned int r2, unsigned int r3,
    void *row)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "[%0], {%1, %2, %3, %4};"
        :: "r"(static_cast<unsigned int>(__cvta_generic_to_shared(row))), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

// c_map_16x32_swizzled: boxes of 16 x 32 elements of c[n][m]
extern "C" __global__ void __launch_bounds__(32)
product(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b,
    const __grid_constant__ CUtensorMap c_map_16x32_swizzled, const int m, const int n)
{
    const int i_block = blockIdx.y;
    const int j_block = blockIdx.x;
    const int i_box_lane = (int)threadIdx.x / 4;
    const int j_box_lane = (int)threadIdx.x % 4;
    __shared__ __nv_bfloat16 a_tile[16][16];
    __shared__ __nv_bfloat16 b_tile[16][32];
    float acc_k[2][2];
    float total[2][2][4];
    alignas(4) __nv_bfloat16 value[2][2][2];
    __shared__ __align__(512) __nv_bfloat16 c_tile[16][32];  // column c of row r is at c ^ (8*(r / 2 % 4)), also for TMA and matrix descriptors

    if (16*i_block + 16 <= n) {  // a full tile
        #pragma unroll
        for (int a_tile_rule_round = 0; a_tile_rule_round < 8; ++a_tile_rule_round) {
            const int a_tile_rule_point = 32*a_tile_rule_round + threadIdx.x;
            const int a_rows_dim_0 = a_tile_rule_point / 16;
            const int a_rows_dim_1 = a_tile_rule_point % 16;
            // a_tile_rule
            a_tile[a_rows_dim_0][a_rows_dim_1] = a[256*i_block + 16*a_rows_dim_0 + a_rows_dim_1];
        }
    } else {
        #pragma unroll
        for (int a_tile_rule_round = 0; a_tile_rule_round < 8; ++a_tile_rule_round) {
            const int a_tile_rule_point = 32*a_tile_rule_round + threadIdx.x;
            const int a_rows_dim_0 = a_tile_rule_point / 16;
            const int a_rows_dim_1 = a_tile_rule_point % 16;
            // a_tile_rule
            a_tile[a_rows_dim_0][a_rows_dim_1] = 16*i_block + a_rows_dim_0 < n ?
                    a[256*i_block + 16*a_rows_dim_0 + a_rows_dim_1] : __nv_bfloat16(0.0f);
        }
    }
    if (32*j_block + 32 <= m) {  // a full tile
        #pragma unroll
        for (int b_tile_rule_round = 0; b_tile_rule_round < 16; ++b_tile_rule_round) {
            const int b_rows_dim_0 = b_tile_rule_round;
            const int b_rows_dim_1 = threadIdx.x;
            // b_tile_rule
            b_tile[b_rows_dim_0][b_rows_dim_1] = b[b_rows_dim_0*m + 32*j_block + b_rows_dim_1];
        }
    } else {
        #pragma unroll
        for (int b_tile_rule_round = 0; b_tile_rule_round < 16; ++b_tile_rule_round) {
            const int b_rows_dim_0 = b_tile_rule_round;
            const int b_rows_dim_1 = threadIdx.x;
            // b_tile_rule
            b_tile[b_rows_dim_0][b_rows_dim_1] = 32*j_block + b_rows_dim_1 < m ?
                    b[b_rows_dim_0*m + 32*j_block + b_rows_dim_1] : __nv_bfloat16(0.0f);
        }
    }
    // a_tile: a_tile_rule writes, insn.k.update reads
    // b_tile: b_tile_rule writes, insn.k.update reads
    __syncwarp();
    #pragma unroll
    for (int j_reg = 0; j_reg < 4; ++j_reg) {
        #pragma unroll
        for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
            #pragma unroll
            for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                // insn.k.init
                acc_k[i_box_part][j_box_item] = 0.0f;
            }
        }
        // insn.k.update
        mma_m16n8k16_f32_bf16(acc_k[0][0], acc_k[0][1], acc_k[1][0], acc_k[1][1],
                packed(a_tile[i_box_lane][2*j_box_lane], a_tile[i_box_lane][2*j_box_lane + 1]),
                packed(a_tile[i_box_lane + 8][2*j_box_lane], a_tile[i_box_lane + 8][2*j_box_lane + 1]),
                packed(a_tile[i_box_lane][2*j_box_lane + 8], a_tile[i_box_lane][2*j_box_lane + 9]),
                packed(a_tile[i_box_lane + 8][2*j_box_lane + 8], a_tile[i_box_lane + 8][2*j_box_lane + 9]),
                packed(b_tile[2*j_box_lane][8*j_reg + i_box_lane],
                b_tile[2*j_box_lane + 1][8*j_reg + i_box_lane]),
                packed(b_tile[2*j_box_lane + 8][8*j_reg + i_box_lane],
                b_tile[2*j_box_lane + 9][8*j_reg + i_box_lane]));
        #pragma unroll
        for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
            #pragma unroll
            for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                // insn
                total[i_box_part][j_box_item][j_reg] = acc_k[i_box_part][j_box_item];
            }
        }
    }
    #pragma unroll
    for (int j_part_outer = 0; j_part_outer < 2; ++j_part_outer) {
        #pragma unroll
        for (int j_part_store = 0; j_part_store < 2; ++j_part_store) {
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                    // value
                    value[i_box_part][j_part_store][j_box_item] =
                            (__nv_bfloat16)total[i_box_part][j_box_item][2*j_part_outer + j_part_store];
                }
            }
        }
        // result
        stmatrix_x4(word_at(value[0][0][0]), word_at(value[1][0][0]), word_at(value[0][1][0]),
                word_at(value[1][1][0]),
                &c_tile[(int)threadIdx.x % 16][(16*j_part_outer +
                    8*((int)threadIdx.x / 16 % 2)) ^ (8*((int)threadIdx.x % 8 / 2))]);
    }
    // c_tile: result writes, store_c reads
    proxy_fence();
    __syncwarp();
    if ((int)threadIdx.x == 0) {
        // store_c
        store_box_2d(&c_tile[0][0], c_map_16x32_swizzled, 16*i_block, 32*j_block);
    }
    // TMA has read shared memory before the block ends
    end_store_group();
    wait_for_stores<0>();
}
