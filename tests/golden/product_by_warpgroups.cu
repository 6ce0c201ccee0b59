// proven: order (8 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: a, b at multiples of 16 bytes, row by row; c at multiples of 8 bytes, row by row; other
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
// commits the products that the warpgroup started since the last commit as one group
__device__ __forceinline__ void end_product_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// waits until all groups of products but the NEWEST newest are done
template <int NEWEST> __device__ __forceinline__ void wait_for_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(NEWEST) : "memory");
}
// the compiler moves no use of these registers further up
__device__ __forceinline__ void keep_below(float &x) { asm volatile("" : "+f"(x) :: "memory"); }
__device__ __forceinline__ void keep_below(int &x) { asm volatile("" : "+r"(x) :: "memory"); }
template <class T, int COUNT> __device__ __forceinline__ void keep_below(T (&x)[COUNT])
{
    #pragma unroll
    for (int i = 0; i < COUNT; ++i)
        keep_below(x[i]);
}
// makes the thread's stores to shared memory visible to the matrix units and to TMA (asynchronous proxy)
__device__ __forceinline__ void proxy_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// orders the threads' accesses to registers before later products of the warpgroup
__device__ __forceinline__ void register_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// the descriptor of a matrix in shared memory: its first element, and its leading and stride byte offsets. With SWIZZLE
// 1, 2 or 3, the matrix units find pieces of 16 bytes where TMA stores them with a swizzle of 128, 64 or 32 bytes.
template <int LEADING, int STRIDE, int SWIZZLE>
__device__ __forceinline__ unsigned long long matrix_at(const void *first)
{
    const unsigned int address = __cvta_generic_to_shared(first);
    return (STRIDE / 16ull | (SWIZZLE + 0ull) << 30) << 32 | (address / 16 + (LEADING / 16u << 16));
}
// all threads of a warpgroup, asynchronously: sums += left*right, 64x128 by 64x16 and 16x128. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][8*b + 2*(t % 4) + i] at BOX*b + PART*p + ITEM*i.
// LEFT is 0 if elements of a row of left follow each other in memory, 1 if those of a column do. RIGHT is 0 for
// those of a column of right, 1 for a row.
template <int BOX, int PART, int ITEM, int LEFT, int RIGHT> __device__ __forceinline__ void wgmma_m64n128k16_f32_bf16(
    float *sums, unsigned long long left, unsigned long long right)
{
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n128k16."
        "f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
        "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, %66, %67; }"
        : "+f"(sums[0]), "+f"(sums[ITEM]), "+f"(sums[PART]), "+f"(sums[PART + ITEM]), "+f"(sums[BOX]),
          "+f"(sums[BOX + ITEM]), "+f"(sums[BOX + PART]), "+f"(sums[BOX + PART + ITEM]), "+f"(sums[2*BOX]),
          "+f"(sums[2*BOX + ITEM]), "+f"(sums[2*BOX + PART]), "+f"(sums[2*BOX + PART + ITEM]),
          "+f"(sums[3*BOX]), "+f"(sums[3*BOX + ITEM]), "+f"(sums[3*BOX + PART]),
          "+f"(sums[3*BOX + PART + ITEM]), "+f"(sums[4*BOX]), "+f"(sums[4*BOX + ITEM]),
          "+f"(sums[4*BOX + PART]), "+f"(sums[4*BOX + PART + ITEM]), "+f"(sums[5*BOX]),
          "+f"(sums[5*BOX + ITEM]), "+f"(sums[5*BOX + PART]), "+f"(sums[5*BOX + PART + ITEM]),
          "+f"(sums[6*BOX]), "+f"(sums[6*BOX + ITEM]), "+f"(sums[6*BOX + PART]),
          "+f"(sums[6*BOX + PART + ITEM]), "+f"(sums[7*BOX]), "+f"(sums[7*BOX + ITEM]),
          "+f"(sums[7*BOX + PART]), "+f"(sums[7*BOX + PART + ITEM]), "+f"(sums[8*BOX]),
          "+f"(sums[8*BOX + ITEM]), "+f"(sums[8*BOX + PART]), "+f"(sums[8*BOX + PART + ITEM]),
          "+f"(sums[9*BOX]), "+f"(sums[9*BOX + ITEM]), "+f"(sums[9*BOX + PART]),
          "+f"(sums[9*BOX + PART + ITEM]), "+f"(sums[10*BOX]), "+f"(sums[10*BOX + ITEM]),
          "+f"(sums[10*BOX + PART]), "+f"(sums[10*BOX + PART + ITEM]), "+f"(sums[11*BOX]),
          "+f"(sums[11*BOX + ITEM]), "+f"(sums[11*BOX + PART]), "+f"(sums[11*BOX + PART + ITEM]),
          "+f"(sums[12*BOX]), "+f"(sums[12*BOX + ITEM]), "+f"(sums[12*BOX + PART]),
          "+f"(sums[12*BOX + PART + ITEM]), "+f"(sums[13*BOX]), "+f"(sums[13*BOX + ITEM]),
          "+f"(sums[13*BOX + PART]), "+f"(sums[13*BOX + PART + ITEM]), "+f"(sums[14*BOX]),
          "+f"(sums[14*BOX + ITEM]), "+f"(sums[14*BOX + PART]), "+f"(sums[14*BOX + PART + ITEM]),
          "+f"(sums[15*BOX]), "+f"(sums[15*BOX + ITEM]), "+f"(sums[15*BOX + PART]),
          "+f"(sums[15*BOX + PART + ITEM])
        : "l"(left), "l"(right), "n"(LEFT), "n"(RIGHT));
}

// the launch gives 98304 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(256)
product(const __nv_bfloat16 *__restrict__ a, const __nv_bfloat16 *__restrict__ b, float *__restrict__ c)
{
    const int i_block = blockIdx.y;
    const int j_block = blockIdx.x;
    const int i_group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);  // the same in a warp
    const int i_box_warp = (int)threadIdx.x / 32 % 4;
    const int i_box_lane = (int)threadIdx.x / 4 % 8;
    const int j_box_lane = (int)threadIdx.x % 4;
    float acc_k[2][16][2];
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&a_tile)[3][128][64] = *reinterpret_cast<__nv_bfloat16 (*)[3][128][64]>(shared_memory_);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&b_tile)[3][2][64][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[3][2][64][64]>(shared_memory_ + 49152);

    #pragma unroll
    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
        #pragma unroll
        for (int j_box_part = 0; j_box_part < 16; ++j_box_part) {
            #pragma unroll
            for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                // insn.k.init
                acc_k[i_box_part][j_box_part][j_box_item] = 0.0f;
            }
        }
    }
    for (int k_outer_first = 0; k_outer_first < 2; ++k_outer_first) {
        #pragma unroll
        for (int a_tile_rule_first_round = 0; a_tile_rule_first_round < 4; ++a_tile_rule_first_round) {
            const int a_tile_rule_first_point = 256*a_tile_rule_first_round + threadIdx.x;
            const int a_i = a_tile_rule_first_point / 8;
            const int a_k_group = 0;
            const int a_k_piece = a_tile_rule_first_point % 8;
            // a_tile_rule_first
            copy_async<16>(&a_tile[k_outer_first][a_i][(64*a_k_group + 8*a_k_piece) ^ (8*(a_i % 8))],
                    &a[32768*i_block + 256*a_i + 64*k_outer_first + 64*a_k_group + 8*a_k_piece]);
        }
        #pragma unroll
        for (int b_tile_rule_first_round = 0; b_tile_rule_first_round < 4; ++b_tile_rule_first_round) {
            const int b_tile_rule_first_point = 256*b_tile_rule_first_round + threadIdx.x;
            const int b_k = b_tile_rule_first_point / 16;
            const int b_j_group = b_tile_rule_first_point / 8 % 2;
            const int b_j_piece = b_tile_rule_first_point % 8;
            // b_tile_rule_first
            copy_async<16>(&b_tile[k_outer_first][b_j_group][b_k][(8*b_j_piece) ^ (8*(b_k % 8))],
                    &b[16384*k_outer_first + 256*b_k + 128*j_block + 64*b_j_group + 8*b_j_piece]);
        }
        end_copy_group();
    }
    // acc_k: insn.k.init writes, insn.k.update reads
    // a_tile: a_tile_rule_first writes, insn.k.update reads
    // b_tile: b_tile_rule_first writes, insn.k.update reads
    wait_for_copies<1>();
    proxy_fence();
    keep_below(acc_k);
    register_fence();
    __syncthreads();
    for (int k_outer = 0; k_outer < 4; ++k_outer) {
        if (k_outer <= 1) {
            #pragma unroll
            for (int a_tile_rule_round = 0; a_tile_rule_round < 4; ++a_tile_rule_round) {
                const int a_tile_rule_point = 256*a_tile_rule_round + threadIdx.x;
                const int a_i = a_tile_rule_point / 8;
                const int a_k_group = 0;
                const int a_k_piece = a_tile_rule_point % 8;
                // a_tile_rule
                copy_async<16>(&a_tile[(k_outer + 2) % 3][a_i][(64*a_k_group +
                            8*a_k_piece) ^ (8*(a_i % 8))],
                        &a[32768*i_block + 256*a_i + 64*k_outer + 64*a_k_group + 8*a_k_piece + 128]);
            }
            #pragma unroll
            for (int b_tile_rule_round = 0; b_tile_rule_round < 4; ++b_tile_rule_round) {
                const int b_tile_rule_point = 256*b_tile_rule_round + threadIdx.x;
                const int b_k = b_tile_rule_point / 16;
                const int b_j_group = b_tile_rule_point / 8 % 2;
                const int b_j_piece = b_tile_rule_point % 8;
                // b_tile_rule
                copy_async<16>(&b_tile[(k_outer + 2) % 3][b_j_group][b_k][(8*b_j_piece) ^ (8*(b_k % 8))],
                        &b[16384*k_outer + 256*b_k + 128*j_block + 64*b_j_group + 8*b_j_piece + 32768]);
            }
        }
        #pragma unroll
        for (int k_step = 0; k_step < 4; ++k_step) {
            // insn.k.update
            wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 1>(&acc_k[0][0][0],
                matrix_at<16, 1024, 1>(&a_tile[k_outer % 3][64*i_group][16*k_step]),
                matrix_at<8192, 1024, 1>(&b_tile[k_outer % 3][0][16*k_step][0]));
        }
        // a_tile: a_tile_rule writes, insn.k.update reads
        // b_tile: b_tile_rule writes, insn.k.update reads
        // a_tile: insn.k.update reads, a_tile_rule overwrites
        // b_tile: insn.k.update reads, b_tile_rule overwrites
        end_product_group();
        wait_for_products<0>();
        keep_below(acc_k);
        end_copy_group();
        wait_for_copies<1>();
        proxy_fence();
        __syncthreads();
    }
    #pragma unroll
    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
        #pragma unroll
        for (int j_box_part = 0; j_box_part < 16; ++j_box_part) {
            alignas(8) float c_vec[2];
            #pragma unroll
            for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                // insn
                c_vec[j_box_item] = acc_k[i_box_part][j_box_part][j_box_item];
            }
            *reinterpret_cast<float2 *>(&c[32768*i_block + 16384*i_group + 4096*i_box_warp +
                        2048*i_box_part + 256*i_box_lane + 128*j_block + 8*j_box_part + 2*j_box_lane]) =
                    *reinterpret_cast<const float2 *>(c_vec);
        }
    }
}
