// proven: order (98 dependences), in bounds, no read before a write, no races; barriers: 5, each needed
// vector accesses: o, go at multiples of 16 bytes, row by row; dv, dk, dq at multiples of 4 bytes, row by
//   row; other calls run a text without them
// tensor maps: k, v, q, go at multiples of 16 bytes, row by row; other calls are refused

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
__device__ __forceinline__ void load_box_4d(void *to, const CUtensorMap &map, unsigned int bytes,
    unsigned long long *mbarrier, int start_0, int start_1, int start_2, int start_3)
{
    const unsigned int box = __cvta_generic_to_shared(to), address = __cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];"
        :: "r"(box), "l"(&map), "r"(address), "r"(start_3), "r"(start_2), "r"(start_1), "r"(start_0) : "memory");
}
// waits until the phase of this parity has ended, which is the current phase of the mbarrier or the one before it
__device__ __forceinline__ void wait_for_phase(unsigned long long *mbarrier, int parity)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    for (unsigned int ended = 0; !ended;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(ended) : "r"(address), "r"(parity) : "memory");
}
// waits for the next phase of this slot. Bit s of parities is the parity for which this thread waits next at slot s.
// A slot that is free from the start begins with 1, since the phase before the first one counts as ended.
template <int COUNT> __device__ __forceinline__ void wait_for_next_phase(
    unsigned long long (&mbarriers)[COUNT], int slot, unsigned int &parities)
{
    wait_for_phase(&mbarriers[slot], parities >> slot & 1);
    parities ^= 1u << slot;
}
// all threads of the warp have done their part of the mbarrier's phase: the warp arrives once
__device__ __forceinline__ void arrive_as_warp(unsigned long long *mbarrier)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address) : "memory");
}
// the threads of a warpgroup keep COUNT registers each, and others can take the rest
template <int COUNT> __device__ __forceinline__ void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(COUNT));
}
// the threads of a warpgroup wait until they have COUNT registers each
template <int COUNT> __device__ __forceinline__ void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(COUNT));
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
// 2**x in one instruction, and 0 where that is subnormal
__device__ __forceinline__ float exp2_ftz(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

extern "C" __global__ void __launch_bounds__(256)
attention_backward_0(const __nv_bfloat16 *__restrict__ o, const __nv_bfloat16 *__restrict__ go,
    const float *__restrict__ log_sum, float *__restrict__ stats, const int batch, const int heads,
    const int n)
{
    const int b = blockIdx.z;
    const int h = blockIdx.y;
    const int r_outer = blockIdx.x;
    const int r_inner = threadIdx.y;
    const int rd_lane = threadIdx.x;
    float acc_rd;
    __shared__ float acc_rd_shared[32][8];  // combined as a tree: the block has other threads too

    if (r_outer <= 4*((n - 1) / 128) + 3) {
        if ((int)threadIdx.x == 0) {
            // low
            stats[(2*b*heads + 2*h)*(((n + 127) / 128)*128) + 32*r_outer + r_inner] = 32*r_outer +
                    r_inner < n ? 1.442695f*log_sum[(b*heads + h)*n + 32*r_outer + r_inner] : 1e+30f;
        }
        if (32*r_outer + r_inner < n) {
            // delta.rd.init
            acc_rd = 0.0f;
            alignas(16) __nv_bfloat16 o_vec[8];
            alignas(16) __nv_bfloat16 go_vec[8];
            *reinterpret_cast<uint4 *>(o_vec) =
                    *reinterpret_cast<const uint4 *>(&o[64*(b*heads + h)*n + 2048*r_outer + 64*r_inner +
                        8*rd_lane]);
            *reinterpret_cast<uint4 *>(go_vec) =
                    *reinterpret_cast<const uint4 *>(&go[64*(b*heads + h)*n + 2048*r_outer + 64*r_inner +
                        8*rd_lane]);
            #pragma unroll
            for (int rd_item = 0; rd_item < 8; ++rd_item) {
                // delta.rd.update
                acc_rd += (float)o_vec[rd_item]*(float)go_vec[rd_item];
            }
            // delta.rd.store
            acc_rd_shared[r_inner][rd_lane] = acc_rd;
        }
        // acc_rd_shared: delta.rd.store writes, delta.rd.step0 reads
        __syncwarp();
    }
    if (32*r_outer < n) {
        if (rd_lane <= 3 && 32*r_outer + r_inner < n) {
            // delta.rd.step0
            acc_rd_shared[r_inner][rd_lane] += acc_rd_shared[r_inner][rd_lane + 4];
        }
    }
    if (r_outer <= 4*((n - 1) / 128) + 3) {
        // acc_rd_shared: delta.rd.step0 writes, delta.rd.step1 reads
        __syncwarp();
    }
    if (32*r_outer < n) {
        if (rd_lane <= 1 && 32*r_outer + r_inner < n) {
            // delta.rd.step1
            acc_rd_shared[r_inner][rd_lane] += acc_rd_shared[r_inner][rd_lane + 2];
        }
    }
    if (r_outer <= 4*((n - 1) / 128) + 3) {
        // acc_rd_shared: delta.rd.step1 writes, delta.rd.step2 reads
        __syncwarp();
        if (rd_lane == 0 && 32*r_outer + r_inner < n) {
            // delta.rd.step2
            acc_rd_shared[r_inner][rd_lane] += acc_rd_shared[r_inner][rd_lane + 1];
        }
        if ((int)threadIdx.x == 0 && 32*r_outer + r_inner < n) {
            // delta
            stats[(2*b*heads + 2*h + 1)*(((n + 127) / 128)*128) + 32*r_outer + r_inner] =
                    acc_rd_shared[r_inner][0];
        }
        if ((int)threadIdx.x == 0 && n <= 32*r_outer + r_inner) {
            // no_delta
            stats[(2*b*heads + 2*h + 1)*(((n + 127) / 128)*128) + 32*r_outer + r_inner] = 0.0f;
        }
    }
}

// k_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of k[batch][heads][m][64]
// v_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of v[batch][heads][m][64]
// q_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of q[batch][heads][n][64]
// go_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of go[batch][heads][n][64]
// stats_map_1x1x2x128: boxes of 1 x 1 x 2 x 128 elements of stats[batch][heads][2][((n + 127) / 128)*128]
// the launch gives 100480 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(384, 1)
attention_backward_1(__nv_bfloat16 *__restrict__ dk, __nv_bfloat16 *__restrict__ dv,
    const __grid_constant__ CUtensorMap k_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap v_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap q_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap go_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap stats_map_1x1x2x128, const int batch, const int heads, const int m,
    const int n)
{
    const int kj_warpgroup = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);  // the same in a warp
    const int kj_box_warp = (int)threadIdx.x / 32 % 4;
    const int kj_box_lane = (int)threadIdx.x / 4 % 8;
    const int kx_lane = (int)threadIdx.x % 4;
    const int ki_lane = (int)threadIdx.x % 4;
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&k_k_tile)[128][64] = *reinterpret_cast<__nv_bfloat16 (*)[128][64]>(shared_memory_);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&k_v_tile)[128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[128][64]>(shared_memory_ + 16384);
    float dk_sums[2][8][2];
    float dv_sums[2][8][2];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&k_q_tile)[2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][128][64]>(shared_memory_ + 32768);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&k_go_tile)[2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][128][64]>(shared_memory_ + 65536);
    float (&k_stats_tile)[2][2][128] = *reinterpret_cast<float (*)[2][2][128]>(shared_memory_ + 98304);
    float acc_kd[2][16][2];
    float acc_ke[2][16][2];
    float k_s[2][16][2];
    float k_w[2][16][2];
    alignas(4) __nv_bfloat16 k_p[8][2][2][2];
    float acc_kc[2][8][2];
    float k_dw[2][16][2];
    alignas(4) __nv_bfloat16 k_ds[8][2][2][2];
    float acc_kg[2][8][2];
    // mbarriers: a phase ends when the copies to k_k_tile and k_v_tile have landed
    unsigned long long (&tiles_full)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 100352);
    // mbarriers: a warp arrives when it has read k_k_tile and k_v_tile
    unsigned long long (&tiles_empty)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 100368);
    // mbarriers: a phase ends when the copies to k_q_tile have landed
    unsigned long long (&k_q_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 100384);
    // mbarriers: a warp arrives when it has read k_q_tile
    unsigned long long (&k_q_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 100400);
    // mbarriers: a phase ends when the copies to k_go_tile have landed
    unsigned long long (&k_go_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 100416);
    // mbarriers: a warp arrives when it has read k_go_tile
    unsigned long long (&k_go_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 100432);
    // mbarriers: a phase ends when the copies to k_stats_tile have landed
    unsigned long long (&k_stats_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 100448);
    // mbarriers: a warp arrives when it has read k_stats_tile
    unsigned long long (&k_stats_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 100464);

    // all threads use the mbarriers after thread 0 prepared them
    unsigned int tiles_full_parities_ = 0u;
    start_phases<2>(tiles_full);
    unsigned int tiles_empty_parities_ = ~0u;
    start_phases<8>(tiles_empty);
    unsigned int k_q_tile_full_parities_ = 0u;
    start_phases<1>(k_q_tile_full);
    unsigned int k_q_tile_empty_parities_ = ~0u;
    start_phases<8>(k_q_tile_empty);
    unsigned int k_go_tile_full_parities_ = 0u;
    start_phases<1>(k_go_tile_full);
    unsigned int k_go_tile_empty_parities_ = ~0u;
    start_phases<8>(k_go_tile_empty);
    unsigned int k_stats_tile_full_parities_ = 0u;
    start_phases<1>(k_stats_tile_full);
    unsigned int k_stats_tile_empty_parities_ = ~0u;
    start_phases<8>(k_stats_tile_empty);
    __syncthreads();

    const long long tiles_along_x = (m + 127) / 128;
    const long long tiles_along_y = heads;
    const long long tiles = tiles_along_x * tiles_along_y * batch;
    // a tile is a place of the grid, along x first; each block runs one in 132, in serpentine order
    if ((int)threadIdx.x >= 256) {  // the producer's warpgroup
        give_registers<24>();
        if ((int)threadIdx.x == 256) {  // the producer
            for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
                const int b = (int)(tile / tiles_along_x / tiles_along_y);
                const int h = (int)(tile / tiles_along_x % tiles_along_y);
                const int ka = (int)(tile % tiles_along_x);

                // k_k_tile: it is copied again for the next place of the grid
                // k_v_tile: it is copied again for the next place of the grid
                wait_for_next_phase(tiles_empty, 0, tiles_empty_parities_);
                // k_k_tile_rule
                load_box_4d(&k_k_tile[0][0], k_map_1x1x128x64_swizzled, 16384, &tiles_full[0], b, h, 128*ka,
                        0);
                // k_v_tile_rule
                load_box_4d(&k_v_tile[0][0], v_map_1x1x128x64_swizzled, 16384, &tiles_full[0], b, h, 128*ka,
                        0);
                for (int kt = 0; kt < (n + 127) / 128; ++kt) {
                    // k_q_tile: k_scores.kd.update reads, k_q_tile_rule overwrites
                    // k_q_tile: dk_sums.kg.update reads, k_q_tile_rule overwrites
                    wait_for_next_phase(k_q_tile_empty, kt % 2, k_q_tile_empty_parities_);
                    // k_q_tile_rule
                    load_box_4d(&k_q_tile[kt % 2][0][0], q_map_1x1x128x64_swizzled, 16384,
                            &k_q_tile_full[kt % 2], b, h, 128*kt, 0);
                    // k_go_tile: k_by_weights.ke.update reads, k_go_tile_rule overwrites
                    // k_go_tile: dv_sums.kc.update reads, k_go_tile_rule overwrites
                    wait_for_next_phase(k_go_tile_empty, kt % 2, k_go_tile_empty_parities_);
                    // k_go_tile_rule
                    load_box_4d(&k_go_tile[kt % 2][0][0], go_map_1x1x128x64_swizzled, 16384,
                            &k_go_tile_full[kt % 2], b, h, 128*kt, 0);
                    // k_stats_tile: k_weights reads, k_stats_tile_rule overwrites
                    // k_stats_tile: k_by_scores reads, k_stats_tile_rule overwrites
                    wait_for_next_phase(k_stats_tile_empty, kt % 2, k_stats_tile_empty_parities_);
                    // k_stats_tile_rule
                    load_box_4d(&k_stats_tile[kt % 2][0][0], stats_map_1x1x2x128, 1024,
                            &k_stats_tile_full[kt % 2], b, h, 0, 128*kt);
                }
            }
        }
    } else if ((int)threadIdx.x < 256) {
        take_registers<240>();
        for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
            const int b = (int)(tile / tiles_along_x / tiles_along_y);
            const int h = (int)(tile / tiles_along_x % tiles_along_y);
            const int ka = (int)(tile % tiles_along_x);

            #pragma unroll
            for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                #pragma unroll
                for (int kx_part = 0; kx_part < 8; ++kx_part) {
                    #pragma unroll
                    for (int kx_item = 0; kx_item < 2; ++kx_item) {
                        // first_dk
                        dk_sums[kj_box_part][kx_part][kx_item] = 0.0f;
                    }
                }
            }
            #pragma unroll
            for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                #pragma unroll
                for (int kx_part = 0; kx_part < 8; ++kx_part) {
                    #pragma unroll
                    for (int kx_item = 0; kx_item < 2; ++kx_item) {
                        // first_dv
                        dv_sums[kj_box_part][kx_part][kx_item] = 0.0f;
                    }
                }
            }
            // k_k_tile: k_k_tile_rule writes, k_scores.kd.update reads
            // k_v_tile: k_v_tile_rule writes, k_by_weights.ke.update reads
            wait_for_next_phase(tiles_full, 0, tiles_full_parities_);
            for (int kt = 0; kt < (n + 127) / 128; ++kt) {
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_scores.kd.init
                            acc_kd[kj_box_part][ki_part][ki_item] = 0.0f;
                        }
                    }
                }
                // k_q_tile: k_q_tile_rule writes, k_scores.kd.update reads
                // k_q_tile: k_q_tile_rule writes, dk_sums.kg.update reads
                wait_for_next_phase(k_q_tile_full, kt % 2, k_q_tile_full_parities_);
                // acc_kd: k_scores.kd.init writes, k_scores.kd.update reads
                keep_below(acc_kd);
                register_fence();
                #pragma unroll
                for (int kd_step = 0; kd_step < 4; ++kd_step) {
                    // k_scores.kd.update
                    wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_kd[0][0][0],
                        matrix_at<16, 1024, 1>(&k_k_tile[64*kj_warpgroup][16*kd_step]),
                        matrix_at<16, 1024, 1>(&k_q_tile[kt % 2][0][16*kd_step]));
                }
                end_product_group();
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_by_weights.ke.init
                            acc_ke[kj_box_part][ki_part][ki_item] = 0.0f;
                        }
                    }
                }
                // k_go_tile: k_go_tile_rule writes, k_by_weights.ke.update reads
                // k_go_tile: k_go_tile_rule writes, dv_sums.kc.update reads
                wait_for_next_phase(k_go_tile_full, kt % 2, k_go_tile_full_parities_);
                // acc_ke: k_by_weights.ke.init writes, k_by_weights.ke.update reads
                keep_below(acc_ke);
                register_fence();
                #pragma unroll
                for (int ke_step = 0; ke_step < 4; ++ke_step) {
                    // k_by_weights.ke.update
                    wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_ke[0][0][0],
                        matrix_at<16, 1024, 1>(&k_v_tile[64*kj_warpgroup][16*ke_step]),
                        matrix_at<16, 1024, 1>(&k_go_tile[kt % 2][0][16*ke_step]));
                }
                // acc_kd: k_scores.kd.update writes, k_scores reads
                end_product_group();
                wait_for_products<1>();
                keep_below(acc_kd);
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_scores
                            k_s[kj_box_part][ki_part][ki_item] = acc_kd[kj_box_part][ki_part][ki_item];
                        }
                    }
                }
                // k_stats_tile: k_stats_tile_rule writes, k_weights reads
                // k_stats_tile: k_stats_tile_rule writes, k_by_scores reads
                wait_for_next_phase(k_stats_tile_full, kt % 2, k_stats_tile_full_parities_);
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        alignas(8) float k_stats_tile_vec[2];
                        *reinterpret_cast<float2 *>(k_stats_tile_vec) =
                                *reinterpret_cast<const float2 *>(&k_stats_tile[kt % 2][0][8*ki_part +
                                    2*ki_lane]);
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_weights
                            k_w[kj_box_part][ki_part][ki_item] =
                                    exp2_ftz(0.18033688f*k_s[kj_box_part][ki_part][ki_item] -
                                    k_stats_tile_vec[ki_item]);
                        }
                    }
                }
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_factors
                            k_p[ki_part / 2][ki_part % 2][kj_box_part][ki_item] =
                                    (__nv_bfloat16)k_w[kj_box_part][ki_part][ki_item];
                        }
                    }
                }
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int kx_part = 0; kx_part < 8; ++kx_part) {
                        #pragma unroll
                        for (int kx_item = 0; kx_item < 2; ++kx_item) {
                            // dv_sums.kc.init
                            acc_kc[kj_box_part][kx_part][kx_item] = dv_sums[kj_box_part][kx_part][kx_item];
                        }
                    }
                }
                // k_p: k_factors writes, dv_sums.kc.update reads
                // acc_kc: dv_sums.kc.init writes, dv_sums.kc.update reads
                keep_below(acc_kc);
                keep_words_below(k_p);
                register_fence();
                #pragma unroll
                for (int kc_step = 0; kc_step < 8; ++kc_step) {
                    // dv_sums.kc.update
                    wgmma_m64n64k16_f32_bf16_registers<2, 16, 1, 1>(&acc_kc[0][0][0],
                        word_at(k_p[kc_step][0][0][0]), word_at(k_p[kc_step][0][1][0]),
                        word_at(k_p[kc_step][1][0][0]), word_at(k_p[kc_step][1][1][0]),
                        matrix_at<16, 1024, 1>(&k_go_tile[kt % 2][16*kc_step][0]));
                }
                // acc_ke: k_by_weights.ke.update writes, k_by_weights reads
                end_product_group();
                wait_for_products<1>();
                keep_below(acc_ke);
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_by_weights
                            k_dw[kj_box_part][ki_part][ki_item] = acc_ke[kj_box_part][ki_part][ki_item];
                        }
                    }
                }
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int ki_part = 0; ki_part < 16; ++ki_part) {
                        alignas(8) float k_stats_tile_vec[2];
                        *reinterpret_cast<float2 *>(k_stats_tile_vec) =
                                *reinterpret_cast<const float2 *>(&k_stats_tile[kt % 2][1][8*ki_part +
                                    2*ki_lane]);
                        #pragma unroll
                        for (int ki_item = 0; ki_item < 2; ++ki_item) {
                            // k_by_scores
                            k_ds[ki_part / 2][ki_part % 2][kj_box_part][ki_item] =
                                    (__nv_bfloat16)(k_w[kj_box_part][ki_part][ki_item]*
                                    (k_dw[kj_box_part][ki_part][ki_item] - k_stats_tile_vec[ki_item]));
                        }
                    }
                }
                // k_stats_tile: k_weights reads, k_stats_tile_rule overwrites
                // k_stats_tile: k_by_scores reads, k_stats_tile_rule overwrites
                arrive_as_warp(&k_stats_tile_empty[kt % 2]);
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int kx_part = 0; kx_part < 8; ++kx_part) {
                        #pragma unroll
                        for (int kx_item = 0; kx_item < 2; ++kx_item) {
                            // dk_sums.kg.init
                            acc_kg[kj_box_part][kx_part][kx_item] = dk_sums[kj_box_part][kx_part][kx_item];
                        }
                    }
                }
                // k_ds: k_by_scores writes, dk_sums.kg.update reads
                // acc_kg: dk_sums.kg.init writes, dk_sums.kg.update reads
                keep_below(acc_kg);
                keep_words_below(k_ds);
                register_fence();
                #pragma unroll
                for (int kg_step = 0; kg_step < 8; ++kg_step) {
                    // dk_sums.kg.update
                    wgmma_m64n64k16_f32_bf16_registers<2, 16, 1, 1>(&acc_kg[0][0][0],
                        word_at(k_ds[kg_step][0][0][0]), word_at(k_ds[kg_step][0][1][0]),
                        word_at(k_ds[kg_step][1][0][0]), word_at(k_ds[kg_step][1][1][0]),
                        matrix_at<16, 1024, 1>(&k_q_tile[kt % 2][16*kg_step][0]));
                }
                // acc_kc: dv_sums.kc.update writes, dv_sums reads
                end_product_group();
                // k_go_tile: k_by_weights.ke.update reads, k_go_tile_rule overwrites
                // k_go_tile: dv_sums.kc.update reads, k_go_tile_rule overwrites
                wait_for_products<1>();
                keep_below(acc_kc);
                arrive_as_warp(&k_go_tile_empty[kt % 2]);
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int kx_part = 0; kx_part < 8; ++kx_part) {
                        #pragma unroll
                        for (int kx_item = 0; kx_item < 2; ++kx_item) {
                            // dv_sums
                            dv_sums[kj_box_part][kx_part][kx_item] = acc_kc[kj_box_part][kx_part][kx_item];
                        }
                    }
                }
                // k_q_tile: k_scores.kd.update reads, k_q_tile_rule overwrites
                // k_q_tile: dk_sums.kg.update reads, k_q_tile_rule overwrites
                wait_for_products<0>();
                keep_below(acc_kg);
                keep_words_below(k_ds);
                keep_words_below(k_p);
                arrive_as_warp(&k_q_tile_empty[kt % 2]);
                #pragma unroll
                for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                    #pragma unroll
                    for (int kx_part = 0; kx_part < 8; ++kx_part) {
                        #pragma unroll
                        for (int kx_item = 0; kx_item < 2; ++kx_item) {
                            // dk_sums
                            dk_sums[kj_box_part][kx_part][kx_item] = acc_kg[kj_box_part][kx_part][kx_item];
                        }
                    }
                }
            }
            // k_k_tile: it is copied again for the next place of the grid
            // k_v_tile: it is copied again for the next place of the grid
            arrive_as_warp(&tiles_empty[0]);
            if (128*ka + 64*kj_warpgroup + 16*kj_box_warp + kj_box_lane < m) {
                if (128*ka + 128 <= m) {  // a full tile
                    #pragma unroll
                    for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                        #pragma unroll
                        for (int kx_part = 0; kx_part < 8; ++kx_part) {
                            alignas(4) __nv_bfloat16 dv_vec[2];
                            #pragma unroll
                            for (int kx_item = 0; kx_item < 2; ++kx_item) {
                                // dv
                                dv_vec[kx_item] = (__nv_bfloat16)dv_sums[kj_box_part][kx_part][kx_item];
                            }
                            *reinterpret_cast<unsigned int *>(&dv[64*(b*heads + h)*m + 8192*ka +
                                        4096*kj_warpgroup + 1024*kj_box_warp + 512*kj_box_part +
                                        64*kj_box_lane + 8*kx_part + 2*kx_lane]) =
                                    *reinterpret_cast<const unsigned int *>(dv_vec);
                        }
                    }
                } else {
                    #pragma unroll
                    for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                        if (128*ka + 64*kj_warpgroup + 16*kj_box_warp + 8*kj_box_part + kj_box_lane < m) {
                            #pragma unroll
                            for (int kx_part = 0; kx_part < 8; ++kx_part) {
                                alignas(4) __nv_bfloat16 dv_vec[2];
                                #pragma unroll
                                for (int kx_item = 0; kx_item < 2; ++kx_item) {
                                    // dv
                                    dv_vec[kx_item] = (__nv_bfloat16)dv_sums[kj_box_part][kx_part][kx_item];
                                }
                                *reinterpret_cast<unsigned int *>(&dv[64*(b*heads + h)*m + 8192*ka +
                                            4096*kj_warpgroup + 1024*kj_box_warp + 512*kj_box_part +
                                            64*kj_box_lane + 8*kx_part + 2*kx_lane]) =
                                        *reinterpret_cast<const unsigned int *>(dv_vec);
                            }
                        }
                    }
                }
                if (128*ka + 128 <= m) {  // a full tile
                    #pragma unroll
                    for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                        #pragma unroll
                        for (int kx_part = 0; kx_part < 8; ++kx_part) {
                            alignas(4) __nv_bfloat16 dk_vec[2];
                            #pragma unroll
                            for (int kx_item = 0; kx_item < 2; ++kx_item) {
                                // dk
                                dk_vec[kx_item] =
                                        (__nv_bfloat16)(0.125f*dk_sums[kj_box_part][kx_part][kx_item]);
                            }
                            *reinterpret_cast<unsigned int *>(&dk[64*(b*heads + h)*m + 8192*ka +
                                        4096*kj_warpgroup + 1024*kj_box_warp + 512*kj_box_part +
                                        64*kj_box_lane + 8*kx_part + 2*kx_lane]) =
                                    *reinterpret_cast<const unsigned int *>(dk_vec);
                        }
                    }
                } else {
                    #pragma unroll
                    for (int kj_box_part = 0; kj_box_part < 2; ++kj_box_part) {
                        if (128*ka + 64*kj_warpgroup + 16*kj_box_warp + 8*kj_box_part + kj_box_lane < m) {
                            #pragma unroll
                            for (int kx_part = 0; kx_part < 8; ++kx_part) {
                                alignas(4) __nv_bfloat16 dk_vec[2];
                                #pragma unroll
                                for (int kx_item = 0; kx_item < 2; ++kx_item) {
                                    // dk
                                    dk_vec[kx_item] =
                                            (__nv_bfloat16)(0.125f*dk_sums[kj_box_part][kx_part][kx_item]);
                                }
                                *reinterpret_cast<unsigned int *>(&dk[64*(b*heads + h)*m + 8192*ka +
                                            4096*kj_warpgroup + 1024*kj_box_warp + 512*kj_box_part +
                                            64*kj_box_lane + 8*kx_part + 2*kx_lane]) =
                                        *reinterpret_cast<const unsigned int *>(dk_vec);
                            }
                        }
                    }
                }
            }
        }
    }
}

// q_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of q[batch][heads][n][64]
// go_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of go[batch][heads][n][64]
// k_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of k[batch][heads][m][64]
// v_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of v[batch][heads][m][64]
// the launch gives 98400 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(384, 1)
attention_backward_2(__nv_bfloat16 *__restrict__ dq, const float *__restrict__ stats,
    const __grid_constant__ CUtensorMap q_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap go_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap k_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap v_map_1x1x128x64_swizzled, const int batch, const int heads,
    const int m, const int n)
{
    const int qi_warpgroup = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);  // the same in a warp
    const int qi_box_warp = (int)threadIdx.x / 32 % 4;
    const int qi_box_lane = (int)threadIdx.x / 4 % 8;
    const int qx_lane = (int)threadIdx.x % 4;
    const int qj_lane = (int)threadIdx.x % 4;
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&q_q_tile)[128][64] = *reinterpret_cast<__nv_bfloat16 (*)[128][64]>(shared_memory_);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&q_go_tile)[128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[128][64]>(shared_memory_ + 16384);
    float q_low[2];
    float q_delta[2];
    float dq_sums[2][8][2];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&q_k_tile)[2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][128][64]>(shared_memory_ + 32768);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&q_v_tile)[2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][128][64]>(shared_memory_ + 65536);
    float acc_qd_first[2][16][2];
    float acc_qe_first[2][16][2];
    float q_s[2][16][2];
    float q_w[2][16][2];
    float q_dw[2][16][2];
    alignas(4) __nv_bfloat16 q_ds[8][2][2][2];
    float acc_qc_first[2][8][2];
    float acc_qd[2][16][2];
    float acc_qe[2][16][2];
    float acc_qc[2][8][2];
    // mbarriers: a phase ends when the copies to q_q_tile and q_go_tile have landed
    unsigned long long (&tiles_full)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 98304);
    // mbarriers: a warp arrives when it has read q_q_tile and q_go_tile
    unsigned long long (&tiles_empty)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 98320);
    // mbarriers: a phase ends when the copies to q_k_tile have landed
    unsigned long long (&q_k_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 98336);
    // mbarriers: a warp arrives when it has read q_k_tile
    unsigned long long (&q_k_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 98352);
    // mbarriers: a phase ends when the copies to q_v_tile have landed
    unsigned long long (&q_v_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 98368);
    // mbarriers: a warp arrives when it has read q_v_tile
    unsigned long long (&q_v_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 98384);

    // all threads use the mbarriers after thread 0 prepared them
    unsigned int tiles_full_parities_ = 0u;
    start_phases<2>(tiles_full);
    unsigned int tiles_empty_parities_ = ~0u;
    start_phases<8>(tiles_empty);
    unsigned int q_k_tile_full_parities_ = 0u;
    start_phases<1>(q_k_tile_full);
    unsigned int q_k_tile_empty_parities_ = ~0u;
    start_phases<8>(q_k_tile_empty);
    unsigned int q_v_tile_full_parities_ = 0u;
    start_phases<1>(q_v_tile_full);
    unsigned int q_v_tile_empty_parities_ = ~0u;
    start_phases<8>(q_v_tile_empty);
    __syncthreads();

    const long long tiles_along_x = (n + 127) / 128;
    const long long tiles_along_y = heads;
    const long long tiles = tiles_along_x * tiles_along_y * batch;
    // a tile is a place of the grid, along x first; each block runs one in 132, in serpentine order
    if ((int)threadIdx.x >= 256) {  // the producer's warpgroup
        give_registers<24>();
        if ((int)threadIdx.x == 256) {  // the producer
            for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
                const int b = (int)(tile / tiles_along_x / tiles_along_y);
                const int h = (int)(tile / tiles_along_x % tiles_along_y);
                const int qa = (int)(tile % tiles_along_x);

                // q_q_tile: it is copied again for the next place of the grid
                // q_go_tile: it is copied again for the next place of the grid
                wait_for_next_phase(tiles_empty, 0, tiles_empty_parities_);
                // q_q_tile_rule
                load_box_4d(&q_q_tile[0][0], q_map_1x1x128x64_swizzled, 16384, &tiles_full[0], b, h, 128*qa,
                        0);
                // q_go_tile_rule
                load_box_4d(&q_go_tile[0][0], go_map_1x1x128x64_swizzled, 16384, &tiles_full[0], b, h,
                        128*qa, 0);
                const int qt_first = 0;
                // q_k_tile: q_scores_first.qd.update reads, q_k_tile_rule overwrites
                // q_k_tile: dq_sums_first.qc.update reads, q_k_tile_rule overwrites
                // q_k_tile: q_scores.qd.update reads, q_k_tile_rule overwrites
                // q_k_tile: dq_sums.qc.update reads, q_k_tile_rule overwrites
                wait_for_next_phase(q_k_tile_empty, qt_first % 2, q_k_tile_empty_parities_);
                // q_k_tile_rule_first
                load_box_4d(&q_k_tile[qt_first % 2][0][0], k_map_1x1x128x64_swizzled, 16384,
                        &q_k_tile_full[qt_first], b, h, -128*qt_first + 128*((m - 1) / 128), 0);
                // q_v_tile: q_by_weights_first.qe.update reads, q_v_tile_rule overwrites
                // q_v_tile: q_by_weights.qe.update reads, q_v_tile_rule overwrites
                wait_for_next_phase(q_v_tile_empty, qt_first % 2, q_v_tile_empty_parities_);
                // q_v_tile_rule_first
                load_box_4d(&q_v_tile[qt_first % 2][0][0], v_map_1x1x128x64_swizzled, 16384,
                        &q_v_tile_full[qt_first], b, h, -128*qt_first + 128*((m - 1) / 128), 0);
                for (int qt = 1; qt < (m + 127) / 128; ++qt) {
                    // q_k_tile: q_scores_first.qd.update reads, q_k_tile_rule overwrites
                    // q_k_tile: dq_sums_first.qc.update reads, q_k_tile_rule overwrites
                    // q_k_tile: q_scores.qd.update reads, q_k_tile_rule overwrites
                    // q_k_tile: dq_sums.qc.update reads, q_k_tile_rule overwrites
                    wait_for_next_phase(q_k_tile_empty, qt % 2, q_k_tile_empty_parities_);
                    // q_k_tile_rule
                    load_box_4d(&q_k_tile[qt % 2][0][0], k_map_1x1x128x64_swizzled, 16384,
                            &q_k_tile_full[qt % 2], b, h, -128*qt + 128*((m - 1) / 128), 0);
                    // q_v_tile: q_by_weights_first.qe.update reads, q_v_tile_rule overwrites
                    // q_v_tile: q_by_weights.qe.update reads, q_v_tile_rule overwrites
                    wait_for_next_phase(q_v_tile_empty, qt % 2, q_v_tile_empty_parities_);
                    // q_v_tile_rule
                    load_box_4d(&q_v_tile[qt % 2][0][0], v_map_1x1x128x64_swizzled, 16384,
                            &q_v_tile_full[qt % 2], b, h, -128*qt + 128*((m - 1) / 128), 0);
                }
            }
        }
    } else if ((int)threadIdx.x < 256) {
        take_registers<240>();
        for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
            const int b = (int)(tile / tiles_along_x / tiles_along_y);
            const int h = (int)(tile / tiles_along_x % tiles_along_y);
            const int qa = (int)(tile % tiles_along_x);

            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                // q_low
                q_low[qi_box_part] =
                        stats[(2*b*heads + 2*h)*(((n + 127) / 128)*128) + 128*qa + 64*qi_warpgroup +
                            16*qi_box_warp + 8*qi_box_part + qi_box_lane];
            }
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                // q_delta
                q_delta[qi_box_part] =
                        stats[(2*b*heads + 2*h + 1)*(((n + 127) / 128)*128) + 128*qa + 64*qi_warpgroup +
                            16*qi_box_warp + 8*qi_box_part + qi_box_lane];
            }
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qx_part = 0; qx_part < 8; ++qx_part) {
                    #pragma unroll
                    for (int qx_item = 0; qx_item < 2; ++qx_item) {
                        // first_dq
                        dq_sums[qi_box_part][qx_part][qx_item] = 0.0f;
                    }
                }
            }
            // q_q_tile: q_q_tile_rule writes, q_scores_first.qd.update reads
            // q_q_tile: q_q_tile_rule writes, q_scores.qd.update reads
            // q_go_tile: q_go_tile_rule writes, q_by_weights_first.qe.update reads
            // q_go_tile: q_go_tile_rule writes, q_by_weights.qe.update reads
            wait_for_next_phase(tiles_full, 0, tiles_full_parities_);
            const int qt_first = 0;
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qj_part = 0; qj_part < 16; ++qj_part) {
                    #pragma unroll
                    for (int qj_item = 0; qj_item < 2; ++qj_item) {
                        // q_scores_first.qd.init
                        acc_qd_first[qi_box_part][qj_part][qj_item] = 0.0f;
                    }
                }
            }
            // q_k_tile: q_k_tile_rule_first writes, q_scores_first.qd.update reads
            // q_k_tile: q_k_tile_rule_first writes, dq_sums_first.qc.update reads
            wait_for_next_phase(q_k_tile_full, qt_first, q_k_tile_full_parities_);
            // acc_qd_first: q_scores_first.qd.init writes, q_scores_first.qd.update reads
            keep_below(acc_qd_first);
            register_fence();
            #pragma unroll
            for (int qd_step = 0; qd_step < 4; ++qd_step) {
                // q_scores_first.qd.update
                wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_qd_first[0][0][0],
                    matrix_at<16, 1024, 1>(&q_q_tile[64*qi_warpgroup][16*qd_step]),
                    matrix_at<16, 1024, 1>(&q_k_tile[qt_first % 2][0][16*qd_step]));
            }
            end_product_group();
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qj_part = 0; qj_part < 16; ++qj_part) {
                    #pragma unroll
                    for (int qj_item = 0; qj_item < 2; ++qj_item) {
                        // q_by_weights_first.qe.init
                        acc_qe_first[qi_box_part][qj_part][qj_item] = 0.0f;
                    }
                }
            }
            // q_v_tile: q_v_tile_rule_first writes, q_by_weights_first.qe.update reads
            wait_for_next_phase(q_v_tile_full, qt_first, q_v_tile_full_parities_);
            // acc_qe_first: q_by_weights_first.qe.init writes, q_by_weights_first.qe.update reads
            keep_below(acc_qe_first);
            register_fence();
            #pragma unroll
            for (int qe_step = 0; qe_step < 4; ++qe_step) {
                // q_by_weights_first.qe.update
                wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_qe_first[0][0][0],
                    matrix_at<16, 1024, 1>(&q_go_tile[64*qi_warpgroup][16*qe_step]),
                    matrix_at<16, 1024, 1>(&q_v_tile[qt_first % 2][0][16*qe_step]));
            }
            // acc_qd_first: q_scores_first.qd.update writes, q_scores_first reads
            end_product_group();
            wait_for_products<1>();
            keep_below(acc_qd_first);
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qj_part = 0; qj_part < 16; ++qj_part) {
                    #pragma unroll
                    for (int qj_item = 0; qj_item < 2; ++qj_item) {
                        // q_scores_first
                        q_s[qi_box_part][qj_part][qj_item] = acc_qd_first[qi_box_part][qj_part][qj_item];
                    }
                }
            }
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qj_part = 0; qj_part < 16; ++qj_part) {
                    #pragma unroll
                    for (int qj_item = 0; qj_item < 2; ++qj_item) {
                        // q_weights_first
                        q_w[qi_box_part][qj_part][qj_item] =
                                exp2_ftz(0.18033688f*q_s[qi_box_part][qj_part][qj_item] - q_low[qi_box_part]);
                    }
                }
            }
            if ((m - 1) % 128 <= 2*qj_lane + 120) {
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            if ((m - 1) % 128 < 8*qj_part + 2*qj_lane + qj_item) {
                                // q_mask
                                q_w[qi_box_part][qj_part][qj_item] = 0.0f;
                            }
                        }
                    }
                }
            }
            // q_v_tile: q_by_weights_first.qe.update reads, q_v_tile_rule overwrites
            // q_v_tile: q_by_weights.qe.update reads, q_v_tile_rule overwrites
            wait_for_products<0>();
            keep_below(acc_qe_first);
            arrive_as_warp(&q_v_tile_empty[qt_first]);
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qj_part = 0; qj_part < 16; ++qj_part) {
                    #pragma unroll
                    for (int qj_item = 0; qj_item < 2; ++qj_item) {
                        // q_by_weights_first
                        q_dw[qi_box_part][qj_part][qj_item] = acc_qe_first[qi_box_part][qj_part][qj_item];
                    }
                }
            }
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qj_part = 0; qj_part < 16; ++qj_part) {
                    #pragma unroll
                    for (int qj_item = 0; qj_item < 2; ++qj_item) {
                        // q_by_scores_first
                        q_ds[qj_part / 2][qj_part % 2][qi_box_part][qj_item] =
                                (__nv_bfloat16)(q_w[qi_box_part][qj_part][qj_item]*
                                (q_dw[qi_box_part][qj_part][qj_item] - q_delta[qi_box_part]));
                    }
                }
            }
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qx_part = 0; qx_part < 8; ++qx_part) {
                    #pragma unroll
                    for (int qx_item = 0; qx_item < 2; ++qx_item) {
                        // dq_sums_first.qc.init
                        acc_qc_first[qi_box_part][qx_part][qx_item] = dq_sums[qi_box_part][qx_part][qx_item];
                    }
                }
            }
            // q_ds: q_by_scores_first writes, dq_sums_first.qc.update reads
            // acc_qc_first: dq_sums_first.qc.init writes, dq_sums_first.qc.update reads
            keep_below(acc_qc_first);
            keep_words_below(q_ds);
            register_fence();
            #pragma unroll
            for (int qc_step = 0; qc_step < 8; ++qc_step) {
                // dq_sums_first.qc.update
                wgmma_m64n64k16_f32_bf16_registers<2, 16, 1, 1>(&acc_qc_first[0][0][0],
                    word_at(q_ds[qc_step][0][0][0]), word_at(q_ds[qc_step][0][1][0]),
                    word_at(q_ds[qc_step][1][0][0]), word_at(q_ds[qc_step][1][1][0]),
                    matrix_at<16, 1024, 1>(&q_k_tile[qt_first % 2][16*qc_step][0]));
            }
            // acc_qc_first: dq_sums_first.qc.update writes, dq_sums_first reads
            end_product_group();
            // q_k_tile: q_scores_first.qd.update reads, q_k_tile_rule overwrites
            // q_k_tile: dq_sums_first.qc.update reads, q_k_tile_rule overwrites
            // q_k_tile: q_scores.qd.update reads, q_k_tile_rule overwrites
            // q_k_tile: dq_sums.qc.update reads, q_k_tile_rule overwrites
            wait_for_products<0>();
            keep_below(acc_qc_first);
            arrive_as_warp(&q_k_tile_empty[qt_first]);
            #pragma unroll
            for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                #pragma unroll
                for (int qx_part = 0; qx_part < 8; ++qx_part) {
                    #pragma unroll
                    for (int qx_item = 0; qx_item < 2; ++qx_item) {
                        // dq_sums_first
                        dq_sums[qi_box_part][qx_part][qx_item] = acc_qc_first[qi_box_part][qx_part][qx_item];
                    }
                }
            }
            for (int qt = 1; qt < (m + 127) / 128; ++qt) {
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            // q_scores.qd.init
                            acc_qd[qi_box_part][qj_part][qj_item] = 0.0f;
                        }
                    }
                }
                // q_k_tile: q_k_tile_rule_first writes, q_scores.qd.update reads
                // q_k_tile: q_k_tile_rule_first writes, dq_sums.qc.update reads
                // q_k_tile: q_k_tile_rule writes, q_scores.qd.update reads
                // q_k_tile: q_k_tile_rule writes, dq_sums.qc.update reads
                wait_for_next_phase(q_k_tile_full, qt % 2, q_k_tile_full_parities_);
                // acc_qd: q_scores.qd.init writes, q_scores.qd.update reads
                keep_below(acc_qd);
                register_fence();
                #pragma unroll
                for (int qd_step = 0; qd_step < 4; ++qd_step) {
                    // q_scores.qd.update
                    wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_qd[0][0][0],
                        matrix_at<16, 1024, 1>(&q_q_tile[64*qi_warpgroup][16*qd_step]),
                        matrix_at<16, 1024, 1>(&q_k_tile[qt % 2][0][16*qd_step]));
                }
                end_product_group();
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            // q_by_weights.qe.init
                            acc_qe[qi_box_part][qj_part][qj_item] = 0.0f;
                        }
                    }
                }
                // q_v_tile: q_v_tile_rule_first writes, q_by_weights.qe.update reads
                // q_v_tile: q_v_tile_rule writes, q_by_weights.qe.update reads
                wait_for_next_phase(q_v_tile_full, qt % 2, q_v_tile_full_parities_);
                // acc_qe: q_by_weights.qe.init writes, q_by_weights.qe.update reads
                keep_below(acc_qe);
                register_fence();
                #pragma unroll
                for (int qe_step = 0; qe_step < 4; ++qe_step) {
                    // q_by_weights.qe.update
                    wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_qe[0][0][0],
                        matrix_at<16, 1024, 1>(&q_go_tile[64*qi_warpgroup][16*qe_step]),
                        matrix_at<16, 1024, 1>(&q_v_tile[qt % 2][0][16*qe_step]));
                }
                // acc_qd: q_scores.qd.update writes, q_scores reads
                end_product_group();
                wait_for_products<1>();
                keep_below(acc_qd);
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            // q_scores
                            q_s[qi_box_part][qj_part][qj_item] = acc_qd[qi_box_part][qj_part][qj_item];
                        }
                    }
                }
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            // q_weights
                            q_w[qi_box_part][qj_part][qj_item] =
                                    exp2_ftz(0.18033688f*q_s[qi_box_part][qj_part][qj_item] -
                                    q_low[qi_box_part]);
                        }
                    }
                }
                // q_v_tile: q_by_weights_first.qe.update reads, q_v_tile_rule overwrites
                // q_v_tile: q_by_weights.qe.update reads, q_v_tile_rule overwrites
                wait_for_products<0>();
                keep_below(acc_qe);
                keep_words_below(q_ds);
                arrive_as_warp(&q_v_tile_empty[qt % 2]);
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            // q_by_weights
                            q_dw[qi_box_part][qj_part][qj_item] = acc_qe[qi_box_part][qj_part][qj_item];
                        }
                    }
                }
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qj_part = 0; qj_part < 16; ++qj_part) {
                        #pragma unroll
                        for (int qj_item = 0; qj_item < 2; ++qj_item) {
                            // q_by_scores
                            q_ds[qj_part / 2][qj_part % 2][qi_box_part][qj_item] =
                                    (__nv_bfloat16)(q_w[qi_box_part][qj_part][qj_item]*
                                    (q_dw[qi_box_part][qj_part][qj_item] - q_delta[qi_box_part]));
                        }
                    }
                }
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qx_part = 0; qx_part < 8; ++qx_part) {
                        #pragma unroll
                        for (int qx_item = 0; qx_item < 2; ++qx_item) {
                            // dq_sums.qc.init
                            acc_qc[qi_box_part][qx_part][qx_item] = dq_sums[qi_box_part][qx_part][qx_item];
                        }
                    }
                }
                // q_ds: q_by_scores writes, dq_sums.qc.update reads
                // acc_qc: dq_sums.qc.init writes, dq_sums.qc.update reads
                keep_below(acc_qc);
                keep_words_below(q_ds);
                register_fence();
                #pragma unroll
                for (int qc_step = 0; qc_step < 8; ++qc_step) {
                    // dq_sums.qc.update
                    wgmma_m64n64k16_f32_bf16_registers<2, 16, 1, 1>(&acc_qc[0][0][0],
                        word_at(q_ds[qc_step][0][0][0]), word_at(q_ds[qc_step][0][1][0]),
                        word_at(q_ds[qc_step][1][0][0]), word_at(q_ds[qc_step][1][1][0]),
                        matrix_at<16, 1024, 1>(&q_k_tile[qt % 2][16*qc_step][0]));
                }
                // acc_qc: dq_sums.qc.update writes, dq_sums reads
                end_product_group();
                // q_k_tile: q_scores_first.qd.update reads, q_k_tile_rule overwrites
                // q_k_tile: dq_sums_first.qc.update reads, q_k_tile_rule overwrites
                // q_k_tile: q_scores.qd.update reads, q_k_tile_rule overwrites
                // q_k_tile: dq_sums.qc.update reads, q_k_tile_rule overwrites
                wait_for_products<0>();
                keep_below(acc_qc);
                arrive_as_warp(&q_k_tile_empty[qt % 2]);
                #pragma unroll
                for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                    #pragma unroll
                    for (int qx_part = 0; qx_part < 8; ++qx_part) {
                        #pragma unroll
                        for (int qx_item = 0; qx_item < 2; ++qx_item) {
                            // dq_sums
                            dq_sums[qi_box_part][qx_part][qx_item] = acc_qc[qi_box_part][qx_part][qx_item];
                        }
                    }
                }
            }
            // q_q_tile: it is copied again for the next place of the grid
            // q_go_tile: it is copied again for the next place of the grid
            arrive_as_warp(&tiles_empty[0]);
            if (128*qa + 64*qi_warpgroup + 16*qi_box_warp + qi_box_lane < n) {
                if (128*qa + 128 <= n) {  // a full tile
                    #pragma unroll
                    for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                        #pragma unroll
                        for (int qx_part = 0; qx_part < 8; ++qx_part) {
                            alignas(4) __nv_bfloat16 dq_vec[2];
                            #pragma unroll
                            for (int qx_item = 0; qx_item < 2; ++qx_item) {
                                // dq
                                dq_vec[qx_item] =
                                        (__nv_bfloat16)(0.125f*dq_sums[qi_box_part][qx_part][qx_item]);
                            }
                            *reinterpret_cast<unsigned int *>(&dq[64*(b*heads + h)*n + 8192*qa +
                                        4096*qi_warpgroup + 1024*qi_box_warp + 512*qi_box_part +
                                        64*qi_box_lane + 8*qx_part + 2*qx_lane]) =
                                    *reinterpret_cast<const unsigned int *>(dq_vec);
                        }
                    }
                } else {
                    #pragma unroll
                    for (int qi_box_part = 0; qi_box_part < 2; ++qi_box_part) {
                        if (128*qa + 64*qi_warpgroup + 16*qi_box_warp + 8*qi_box_part + qi_box_lane < n) {
                            #pragma unroll
                            for (int qx_part = 0; qx_part < 8; ++qx_part) {
                                alignas(4) __nv_bfloat16 dq_vec[2];
                                #pragma unroll
                                for (int qx_item = 0; qx_item < 2; ++qx_item) {
                                    // dq
                                    dq_vec[qx_item] =
                                            (__nv_bfloat16)(0.125f*dq_sums[qi_box_part][qx_part][qx_item]);
                                }
                                *reinterpret_cast<unsigned int *>(&dq[64*(b*heads + h)*n + 8192*qa +
                                            4096*qi_warpgroup + 1024*qi_box_warp + 512*qi_box_part +
                                            64*qi_box_lane + 8*qx_part + 2*qx_lane]) =
                                        *reinterpret_cast<const unsigned int *>(dq_vec);
                            }
                        }
                    }
                }
            }
        }
    }
}
