// proven: order (14 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: c at multiples of 8 bytes, row by row; other calls run a text without them
// tensor maps: q, k, v at multiples of 16 bytes, row by row; other calls are refused

#include <cuda_bf16.h>
#ifdef __CUDACC_RTC__
struct __align__(64) CUtensorMap {
    unsigned long long opaque[16];
};
#else
#include <cuda.h>
#endif
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
// the same for elements of registers of 32 bits, which have several elements each
template <class T> __device__ __forceinline__ void keep_words_below(T &x)
{
    unsigned int (&words)[sizeof(T) / 4] = reinterpret_cast<unsigned int (&)[sizeof(T) / 4]>(x);
    #pragma unroll
    for (int i = 0; i < sizeof(T) / 4; ++i)
        asm volatile("" : "+r"(words[i]) :: "memory");
}
// orders the threads' accesses to registers before later products of the warpgroup
__device__ __forceinline__ void register_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
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
// the descriptor of a matrix in shared memory: its first element, and its leading and stride byte offsets. With SWIZZLE
// 1, 2 or 3, the matrix units find pieces of 16 bytes where TMA stores them with a swizzle of 128, 64 or 32 bytes.
template <int LEADING, int STRIDE, int SWIZZLE>
__device__ __forceinline__ unsigned long long matrix_at(const void *first)
{
    const unsigned int address = __cvta_generic_to_shared(first);
    return (STRIDE / 16ull | (SWIZZLE + 0ull) << 30) << 32 | (address / 16 + (LEADING / 16u << 16));
}
// all threads of a warpgroup, asynchronously: sums += left*right, 64x64 by 64x16 and 16x64. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][8*b + 2*(t % 4) + i] at BOX*b + PART*p + ITEM*i.
// LEFT is 0 if elements of a row of left follow each other in memory, 1 if those of a column do. RIGHT is 0 for
// those of a column of right, 1 for a row.
template <int BOX, int PART, int ITEM, int LEFT, int RIGHT> __device__ __forceinline__ void wgmma_m64n64k16_f32_bf16(
    float *sums, unsigned long long left, unsigned long long right)
{
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n64k16."
        "f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, %34, %35; }"
        : "+f"(sums[0]), "+f"(sums[ITEM]), "+f"(sums[PART]), "+f"(sums[PART + ITEM]), "+f"(sums[BOX]),
          "+f"(sums[BOX + ITEM]), "+f"(sums[BOX + PART]), "+f"(sums[BOX + PART + ITEM]), "+f"(sums[2*BOX]),
          "+f"(sums[2*BOX + ITEM]), "+f"(sums[2*BOX + PART]), "+f"(sums[2*BOX + PART + ITEM]),
          "+f"(sums[3*BOX]), "+f"(sums[3*BOX + ITEM]), "+f"(sums[3*BOX + PART]),
          "+f"(sums[3*BOX + PART + ITEM]), "+f"(sums[4*BOX]), "+f"(sums[4*BOX + ITEM]),
          "+f"(sums[4*BOX + PART]), "+f"(sums[4*BOX + PART + ITEM]), "+f"(sums[5*BOX]),
          "+f"(sums[5*BOX + ITEM]), "+f"(sums[5*BOX + PART]), "+f"(sums[5*BOX + PART + ITEM]),
          "+f"(sums[6*BOX]), "+f"(sums[6*BOX + ITEM]), "+f"(sums[6*BOX + PART]),
          "+f"(sums[6*BOX + PART + ITEM]), "+f"(sums[7*BOX]), "+f"(sums[7*BOX + ITEM]),
          "+f"(sums[7*BOX + PART]), "+f"(sums[7*BOX + PART + ITEM])
        : "l"(left), "l"(right), "n"(LEFT), "n"(RIGHT));
}
// all threads of a warpgroup, asynchronously: sums += left*right, 64x64 by 64x16 and 16x64. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][8*b + 2*(t % 4) + i] at BOX*b + PART*p + ITEM*i.
// Element number e of its words is left[16*(t / 32) + 8*(e / 2 % 2) + t / 4 % 8][8*(e / 4) + 2*(t % 4) + e % 2].
// RIGHT is 0 if elements of a column of right follow each other in memory, 1 if those of a row do.
template <int BOX, int PART, int ITEM, int RIGHT> __device__ __forceinline__ void wgmma_m64n64k16_f32_bf16_registers(
    float *sums, unsigned int left0, unsigned int left1, unsigned int left2, unsigned int left3,
    unsigned long long right)
{
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n64k16."
        "f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, %37; }"
        : "+f"(sums[0]), "+f"(sums[ITEM]), "+f"(sums[PART]), "+f"(sums[PART + ITEM]), "+f"(sums[BOX]),
          "+f"(sums[BOX + ITEM]), "+f"(sums[BOX + PART]), "+f"(sums[BOX + PART + ITEM]), "+f"(sums[2*BOX]),
          "+f"(sums[2*BOX + ITEM]), "+f"(sums[2*BOX + PART]), "+f"(sums[2*BOX + PART + ITEM]),
          "+f"(sums[3*BOX]), "+f"(sums[3*BOX + ITEM]), "+f"(sums[3*BOX + PART]),
          "+f"(sums[3*BOX + PART + ITEM]), "+f"(sums[4*BOX]), "+f"(sums[4*BOX + ITEM]),
          "+f"(sums[4*BOX + PART]), "+f"(sums[4*BOX + PART + ITEM]), "+f"(sums[5*BOX]),
          "+f"(sums[5*BOX + ITEM]), "+f"(sums[5*BOX + PART]), "+f"(sums[5*BOX + PART + ITEM]),
          "+f"(sums[6*BOX]), "+f"(sums[6*BOX + ITEM]), "+f"(sums[6*BOX + PART]),
          "+f"(sums[6*BOX + PART + ITEM]), "+f"(sums[7*BOX]), "+f"(sums[7*BOX + ITEM]),
          "+f"(sums[7*BOX + PART]), "+f"(sums[7*BOX + PART + ITEM])
        : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "l"(right), "n"(RIGHT));
}

// q_map_128x64_swizzled: boxes of 128 x 64 elements of q[128][64]
// k_map_64x64_swizzled: boxes of 64 x 64 elements of k[256][64]
// v_map_64x64_swizzled: boxes of 64 x 64 elements of v[256][64]
// the launch gives 65608 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(256)
product_of_products(float *__restrict__ c, const __grid_constant__ CUtensorMap q_map_128x64_swizzled,
    const __grid_constant__ CUtensorMap k_map_64x64_swizzled,
    const __grid_constant__ CUtensorMap v_map_64x64_swizzled)
{
    const int i_block = blockIdx.x;
    const int i_group = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);  // the same in a warp
    const int i_box_warp = (int)threadIdx.x / 32 % 4;
    const int i_box_lane = (int)threadIdx.x / 4 % 8;
    const int e_lane = (int)threadIdx.x % 4;
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&q_tile)[128][64] = *reinterpret_cast<__nv_bfloat16 (*)[128][64]>(shared_memory_);
    float acc_j[2][8][2];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&k_tile)[3][64][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[3][64][64]>(shared_memory_ + 16384);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&v_tile)[3][64][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[3][64][64]>(shared_memory_ + 40960);
    float acc_d[2][8][2];
    alignas(4) __nv_bfloat16 p_held[4][2][2][2];
    // mbarriers: a phase ends when the copies to q_tile have landed
    unsigned long long (&q_tile_full)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 65536);
    // mbarriers: a phase ends when the copies to k_tile have landed
    unsigned long long (&k_tile_full)[3] =
            *reinterpret_cast<unsigned long long (*)[3]>(shared_memory_ + 65552);
    // mbarriers: a phase ends when the copies to v_tile have landed
    unsigned long long (&v_tile_full)[3] =
            *reinterpret_cast<unsigned long long (*)[3]>(shared_memory_ + 65584);

    // all threads use the mbarriers after thread 0 prepared them
    start_phases<1>(q_tile_full);
    start_phases<1>(k_tile_full);
    start_phases<1>(v_tile_full);
    __syncthreads();
    if ((int)threadIdx.x == 0) {
        // q_tile_rule
        load_box_2d(&q_tile[0][0], q_map_128x64_swizzled, 16384, &q_tile_full[0], 128*i_block, 0);
    }
    #pragma unroll
    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
        #pragma unroll
        for (int e_part = 0; e_part < 8; ++e_part) {
            #pragma unroll
            for (int e_item = 0; e_item < 2; ++e_item) {
                // insn.j.init
                acc_j[i_box_part][e_part][e_item] = 0.0f;
            }
        }
    }
    const int j_tile_first = 0;
    if ((int)threadIdx.x == 0) {
        // k_tile_rule_first
        load_box_2d(&k_tile[j_tile_first][0][0], k_map_64x64_swizzled, 8192, &k_tile_full[j_tile_first],
                64*j_tile_first, 0);
        // v_tile_rule_first
        load_box_2d(&v_tile[j_tile_first][0][0], v_map_64x64_swizzled, 8192, &v_tile_full[j_tile_first],
                64*j_tile_first, 0);
    }
    // q_tile: q_tile_rule writes, p_held_rule.d.update reads
    wait_for_phase(&q_tile_full[0], 0);
    for (int j_tile = 0; j_tile < 4; ++j_tile) {
        if (j_tile <= 2) {
            if ((int)threadIdx.x == 0) {
                // k_tile_rule
                load_box_2d(&k_tile[(j_tile + 1) % 3][0][0], k_map_64x64_swizzled, 8192,
                        &k_tile_full[(j_tile + 1) % 3], 64*j_tile + 64, 0);
                // v_tile_rule
                load_box_2d(&v_tile[(j_tile + 1) % 3][0][0], v_map_64x64_swizzled, 8192,
                        &v_tile_full[(j_tile + 1) % 3], 64*j_tile + 64, 0);
            }
        }
        #pragma unroll
        for (int p_i_part = 0; p_i_part < 2; ++p_i_part) {
            #pragma unroll
            for (int p_j_part = 0; p_j_part < 8; ++p_j_part) {
                #pragma unroll
                for (int p_j_item = 0; p_j_item < 2; ++p_j_item) {
                    // p_held_rule.d.init
                    acc_d[p_i_part][p_j_part][p_j_item] = 0.0f;
                }
            }
        }
        // k_tile: k_tile_rule_first writes, p_held_rule.d.update reads
        // k_tile: k_tile_rule writes, p_held_rule.d.update reads
        wait_for_phase(&k_tile_full[j_tile % 3], j_tile / 3 % 2);
        // acc_d: p_held_rule.d.init writes, p_held_rule.d.update reads
        keep_below(acc_d);
        register_fence();
        #pragma unroll
        for (int d_step = 0; d_step < 4; ++d_step) {
            // p_held_rule.d.update
            wgmma_m64n64k16_f32_bf16<2, 16, 1, 0, 0>(&acc_d[0][0][0],
                matrix_at<16, 1024, 1>(&q_tile[64*i_group][16*d_step]),
                matrix_at<16, 1024, 1>(&k_tile[j_tile % 3][0][16*d_step]));
        }
        // acc_d: p_held_rule.d.update writes, p_held_rule reads
        end_product_group();
        wait_for_products<0>();
        keep_below(acc_d);
        keep_words_below(p_held);
        #pragma unroll
        for (int p_i_part = 0; p_i_part < 2; ++p_i_part) {
            #pragma unroll
            for (int p_j_part = 0; p_j_part < 8; ++p_j_part) {
                #pragma unroll
                for (int p_j_item = 0; p_j_item < 2; ++p_j_item) {
                    // p_held_rule
                    p_held[p_j_part / 2][p_j_part % 2][p_i_part][p_j_item] =
                            (__nv_bfloat16)exp2f(-fminf(fabsf(acc_d[p_i_part][p_j_part][p_j_item]), 16.0f));
                }
            }
        }
        // v_tile: v_tile_rule_first writes, insn.j.update reads
        // v_tile: v_tile_rule writes, insn.j.update reads
        wait_for_phase(&v_tile_full[j_tile % 3], j_tile / 3 % 2);
        // p_held: p_held_rule writes, insn.j.update reads
        keep_below(acc_j);
        keep_words_below(p_held);
        register_fence();
        #pragma unroll
        for (int j_step = 0; j_step < 4; ++j_step) {
            // insn.j.update
            wgmma_m64n64k16_f32_bf16_registers<2, 16, 1, 1>(&acc_j[0][0][0],
                word_at(p_held[j_step][0][0][0]), word_at(p_held[j_step][0][1][0]),
                word_at(p_held[j_step][1][0][0]), word_at(p_held[j_step][1][1][0]),
                matrix_at<16, 1024, 1>(&v_tile[j_tile % 3][16*j_step][0]));
        }
        // k_tile: p_held_rule.d.update reads, k_tile_rule overwrites
        // v_tile: insn.j.update reads, v_tile_rule overwrites
        end_product_group();
        wait_for_products<2>();
        __syncthreads();
    }
    // acc_j: insn.j.update writes, insn reads
    wait_for_products<0>();
    keep_below(acc_j);
    #pragma unroll
    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
        #pragma unroll
        for (int e_part = 0; e_part < 8; ++e_part) {
            alignas(8) float c_vec[2];
            #pragma unroll
            for (int e_item = 0; e_item < 2; ++e_item) {
                // insn
                c_vec[e_item] = acc_j[i_box_part][e_part][e_item];
            }
            *reinterpret_cast<float2 *>(&c[8192*i_block + 4096*i_group + 1024*i_box_warp + 512*i_box_part +
                        64*i_box_lane + 8*e_part + 2*e_lane]) = *reinterpret_cast<const float2 *>(c_vec);
        }
    }
}
