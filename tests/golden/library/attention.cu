// proven: order (86 dependences), in bounds, no read before a write, no races; barriers: 3, each needed
// tensor maps: q, k, v, o at multiples of 16 bytes, row by row; other calls are refused

#include <cuda_bf16.h>
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
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
// the first threads of the block, all but the warp of the producer, wait for each other
template <int THREADS> __device__ __forceinline__ void barrier_of_consumers()
{
    asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
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
// Each of COUNT warpgroups has a named barrier, at which it waits for its turn. The last warpgroup arrives at that
// of warpgroup 0, which then begins.
template <int COUNT> __device__ __forceinline__ void start_turns()
{
    if (threadIdx.x / 128 == COUNT - 1)
        asm volatile("bar.arrive 2, 256;" ::: "memory");
}
// waits until the warpgroup before has ended its turn
template <int COUNT> __device__ __forceinline__ void begin_turn()
{
    asm volatile("bar.sync %0, 256;" :: "r"(2 + threadIdx.x / 128) : "memory");
}
// lets the next warpgroup begin its turn
template <int COUNT> __device__ __forceinline__ void end_turn()
{
    asm volatile("bar.arrive %0, 256;" :: "r"(2 + (threadIdx.x / 128 + 1) % COUNT) : "memory");
}
// TMA: a box in shared memory goes to the array that the map describes, without the elements outside of the array
__device__ __forceinline__ void store_box_4d(const void *from, const CUtensorMap &map, int start_0, int start_1, int start_2, int start_3)
{
    const unsigned int box = __cvta_generic_to_shared(from);
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
        :: "l"(&map), "r"(box), "r"(start_3), "r"(start_2), "r"(start_1), "r"(start_0) : "memory");
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
// all threads of a warpgroup, asynchronously: sums += left*right, 64x128 by 64x16 and 16x128. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][8*b + 2*(t % 4) + i] at BOX*b + PART*p + ITEM*i.
// Element number e of its words is left[16*(t / 32) + 8*(e / 2 % 2) + t / 4 % 8][8*(e / 4) + 2*(t % 4) + e % 2].
// RIGHT is 0 if elements of a column of right follow each other in memory, 1 if those of a row do.
template <int BOX, int PART, int ITEM, int RIGHT> __device__ __forceinline__ void wgmma_m64n128k16_f32_bf16_registers(
    float *sums, unsigned int left0, unsigned int left1, unsigned int left2, unsigned int left3,
    unsigned long long right)
{
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n128k16."
        "f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
        "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, %69; }"
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
        : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "l"(right), "n"(RIGHT));
}
// 2**x in one instruction, and 0 where that is subnormal
__device__ __forceinline__ float exp2_ftz(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
__device__ __forceinline__ int floor_mod_i32(int a, int b)
{
    const int r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// q_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of q[batch][heads][n][128]
// k_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of k[batch][key_heads][n][128]
// v_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of v[batch][key_heads][n][128]
// o_map_1x1x128x64_swizzled: boxes of 1 x 1 x 128 x 64 elements of o[batch][heads][n][128]
// the launch gives 196704 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ CUtensorMap q_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap k_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap v_map_1x1x128x64_swizzled,
    const __grid_constant__ CUtensorMap o_map_1x1x128x64_swizzled, const int batch, const int key_heads,
    const int n)
{
    const int i_warpgroup = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);  // the same in a warp
    const int i_box_warp = (int)threadIdx.x / 32 % 4;
    const int i_box_lane = (int)threadIdx.x / 4 % 8;
    const int e_lane = (int)threadIdx.x % 4;
    const int j_lane = (int)threadIdx.x % 4;
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&q_tile)[2][128][64] = *reinterpret_cast<__nv_bfloat16 (*)[2][128][64]>(shared_memory_);
    float top[2];
    float total[2];
    float sums[2][16][2];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&k_tile)[2][2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][2][128][64]>(shared_memory_ + 32768);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&v_tile)[2][2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][2][128][64]>(shared_memory_ + 98304);
    float acc_d_first[2][16][2];
    float s[2][16][2];
    float acc_j_first[2];
    float acc_j_first_all[2];
    float next[2];
    float low[2];
    float shrink[2];
    float w[2][16][2];
    float acc_j_0_first[2];
    float acc_j_0_first_all[2];
    alignas(4) __nv_bfloat16 p[8][2][2][2];
    float acc_d[2][16][2];
    float acc_c[2][16][2];
    float acc_j[2];
    float acc_j_all[2];
    float acc_j_0[2];
    float acc_j_0_all[2];
    float acc_c_last[2][16][2];
    float share[2];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&o_tile)[2][128][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][128][64]>(shared_memory_ + 163840);
    // mbarriers: a phase ends when the copies to q_tile have landed
    unsigned long long (&q_tile_full)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 196608);
    // mbarriers: a warp arrives when it has read q_tile
    unsigned long long (&q_tile_empty)[1] =
            *reinterpret_cast<unsigned long long (*)[1]>(shared_memory_ + 196624);
    // mbarriers: a phase ends when the copies to k_tile have landed
    unsigned long long (&k_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 196640);
    // mbarriers: a warp arrives when it has read k_tile
    unsigned long long (&k_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 196656);
    // mbarriers: a phase ends when the copies to v_tile have landed
    unsigned long long (&v_tile_full)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 196672);
    // mbarriers: a warp arrives when it has read v_tile
    unsigned long long (&v_tile_empty)[2] =
            *reinterpret_cast<unsigned long long (*)[2]>(shared_memory_ + 196688);
    float acc_j_first_warp[2]{};  // combined by shuffles in rows of 4
    float acc_j_0_first_warp[2]{};  // combined by shuffles in rows of 4
    float acc_j_warp[2]{};  // combined by shuffles in rows of 4
    float acc_j_0_warp[2]{};  // combined by shuffles in rows of 4

    // all threads use the mbarriers after thread 0 prepared them
    unsigned int q_tile_full_parities_ = 0u;
    start_phases<2>(q_tile_full);
    unsigned int q_tile_empty_parities_ = ~0u;
    start_phases<8>(q_tile_empty);
    unsigned int k_tile_full_parities_ = 0u;
    start_phases<2>(k_tile_full);
    unsigned int k_tile_empty_parities_ = ~0u;
    start_phases<8>(k_tile_empty);
    unsigned int v_tile_full_parities_ = 0u;
    start_phases<2>(v_tile_full);
    unsigned int v_tile_empty_parities_ = ~0u;
    start_phases<8>(v_tile_empty);
    __syncthreads();
    start_turns<2>();

    const long long tiles_along_x = key_heads;
    const long long tiles_along_y = batch;
    const long long tiles_along_z = (n + 127) / 128;
    const long long tiles = tiles_along_x * tiles_along_y * tiles_along_z;
    // a tile is a place of the grid, along z for each 11 along x and y; each block runs one in 132, in serpentine order
    if ((int)threadIdx.x >= 256) {  // the producer's warpgroup
        give_registers<32>();
        if ((int)threadIdx.x == 256) {  // the producer
            for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
                const long long first_column = tile / (11 * tiles_along_z) * 11;
                const long long columns = min(11LL, tiles_along_x * tiles_along_y - first_column);
                const long long place_in_group = tile - first_column * tiles_along_z;
                const long long column = first_column + place_in_group % columns;
                const int b = (int)(column / tiles_along_x);
                const int h = (int)(column % tiles_along_x);
                const int a = (int)(place_in_group / columns);

                // q_tile: it is copied again for the next place of the grid
                wait_for_next_phase(q_tile_empty, 0, q_tile_empty_parities_);
                for (int q_d_part = 0; q_d_part < 2; ++q_d_part) {
                    // q_tile_rule
                    load_box_4d(&q_tile[q_d_part][0][0], q_map_1x1x128x64_swizzled, 16384, &q_tile_full[0],
                            b, h, 128*((n + 127) / 128) - 128*a - 128, 64*q_d_part);
                }
                const int t_first = 0;
                // k_tile: scores_first.d.update reads, k_tile_rule overwrites
                // k_tile: scores.d.update reads, k_tile_rule overwrites
                wait_for_next_phase(k_tile_empty, t_first % 2, k_tile_empty_parities_);
                for (int k_d_part = 0; k_d_part < 2; ++k_d_part) {
                    // k_tile_rule_first
                    load_box_4d(&k_tile[t_first % 2][k_d_part][0][0], k_map_1x1x128x64_swizzled, 16384,
                            &k_tile_full[t_first], b, h, -128*t_first - 128*a + 128*((n - 1) / 128),
                            64*k_d_part);
                }
                // v_tile: sums.c.update reads, v_tile_rule overwrites
                wait_for_next_phase(v_tile_empty, t_first % 2, v_tile_empty_parities_);
                for (int v_e_part = 0; v_e_part < 2; ++v_e_part) {
                    // v_tile_rule_first
                    load_box_4d(&v_tile[t_first % 2][v_e_part][0][0], v_map_1x1x128x64_swizzled, 16384,
                            &v_tile_full[t_first], b, h, -128*t_first - 128*a + 128*((n - 1) / 128),
                            64*v_e_part);
                }
                for (int t = 1; t < (n - 1) / 128 - a + 1; ++t) {
                    // k_tile: scores_first.d.update reads, k_tile_rule overwrites
                    // k_tile: scores.d.update reads, k_tile_rule overwrites
                    wait_for_next_phase(k_tile_empty, t % 2, k_tile_empty_parities_);
                    for (int k_d_part = 0; k_d_part < 2; ++k_d_part) {
                        // k_tile_rule
                        load_box_4d(&k_tile[t % 2][k_d_part][0][0], k_map_1x1x128x64_swizzled, 16384,
                                &k_tile_full[t % 2], b, h, -128*t - 128*a + 128*((n - 1) / 128), 64*k_d_part);
                    }
                    // v_tile: sums.c.update reads, v_tile_rule overwrites
                    wait_for_next_phase(v_tile_empty, t % 2, v_tile_empty_parities_);
                    for (int v_e_part = 0; v_e_part < 2; ++v_e_part) {
                        // v_tile_rule
                        load_box_4d(&v_tile[t % 2][v_e_part][0][0], v_map_1x1x128x64_swizzled, 16384,
                                &v_tile_full[t % 2], b, h, -128*t - 128*a + 128*((n - 1) / 128), 64*v_e_part);
                    }
                }
            }
        }
    } else if ((int)threadIdx.x < 256) {
        take_registers<232>();
        for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
            const long long first_column = tile / (11 * tiles_along_z) * 11;
            const long long columns = min(11LL, tiles_along_x * tiles_along_y - first_column);
            const long long place_in_group = tile - first_column * tiles_along_z;
            const long long column = first_column + place_in_group % columns;
            const int b = (int)(column / tiles_along_x);
            const int h = (int)(column % tiles_along_x);
            const int a = (int)(place_in_group / columns);

            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // first_top
                top[i_box_part] = -1e+30f;
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // first_total
                total[i_box_part] = 0.0f;
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int e_part = 0; e_part < 16; ++e_part) {
                    #pragma unroll
                    for (int e_item = 0; e_item < 2; ++e_item) {
                        // first_sums
                        sums[i_box_part][e_part][e_item] = 0.0f;
                    }
                }
            }
            // q_tile: q_tile_rule writes, scores_first.d.update reads
            // q_tile: q_tile_rule writes, scores.d.update reads
            wait_for_next_phase(q_tile_full, 0, q_tile_full_parities_);
            const int t_first = 0;
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        // scores_first.d.init
                        acc_d_first[i_box_part][j_part][j_item] = 0.0f;
                    }
                }
            }
            // k_tile: k_tile_rule_first writes, scores_first.d.update reads
            wait_for_next_phase(k_tile_full, t_first, k_tile_full_parities_);
            // acc_d_first: scores_first.d.init writes, scores_first.d.update reads
            keep_below(acc_d_first);
            register_fence();
            #pragma unroll
            for (int d_step = 0; d_step < 8; ++d_step) {
                // scores_first.d.update
                wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_d_first[0][0][0],
                    matrix_at<16, 1024, 1>(&q_tile[d_step / 4][64*i_warpgroup][16*(d_step % 4)]),
                    matrix_at<16, 1024, 1>(&k_tile[t_first % 2][d_step / 4][0][16*(d_step % 4)]));
            }
            // acc_d_first: scores_first.d.update writes, scores_first reads
            end_product_group();
            // k_tile: scores_first.d.update reads, k_tile_rule overwrites
            // k_tile: scores.d.update reads, k_tile_rule overwrites
            wait_for_products<0>();
            keep_below(acc_d_first);
            arrive_as_warp(&k_tile_empty[t_first]);
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        // scores_first
                        s[i_box_part][j_part][j_item] = acc_d_first[i_box_part][j_part][j_item];
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        if (64*i_warpgroup + 16*i_box_warp + 8*i_box_part + i_box_lane < 8*j_part +
                                2*j_lane + j_item) {
                            // mask
                            s[i_box_part][j_part][j_item] = -1e+30f;
                        }
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // next_first.j.init
                acc_j_first[i_box_part] = -INFINITY;
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        // next_first.j.update
                        acc_j_first[i_box_part] =
                                fmaxf(acc_j_first[i_box_part], s[i_box_part][j_part][j_item]);
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // next_first.j.store ... next_first.j.result: shuffles combine acc_j_first[i_box_part] of 4 lanes; all of them get the result
                acc_j_first_warp[i_box_part] = acc_j_first[i_box_part];
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                acc_j_first_warp[i_box_part] =
                        fmaxf(acc_j_first_warp[i_box_part],
                        __shfl_xor_sync(0xffffffff, acc_j_first_warp[i_box_part], 2));
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                acc_j_first_warp[i_box_part] =
                        fmaxf(acc_j_first_warp[i_box_part],
                        __shfl_xor_sync(0xffffffff, acc_j_first_warp[i_box_part], 1));
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                acc_j_first_all[i_box_part] = acc_j_first_warp[i_box_part];
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // next_first
                next[i_box_part] = fmaxf(top[i_box_part], acc_j_first_all[i_box_part]);
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // low_first
                low[i_box_part] = 0.12751743f*next[i_box_part];
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // shrink_first
                shrink[i_box_part] = exp2_ftz(0.12751743f*top[i_box_part] - low[i_box_part]);
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        // weights_first
                        w[i_box_part][j_part][j_item] =
                                exp2_ftz(0.12751743f*s[i_box_part][j_part][j_item] - low[i_box_part]);
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // total_first.j.init
                acc_j_0_first[i_box_part] = 0.0f;
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        // total_first.j.update
                        acc_j_0_first[i_box_part] += w[i_box_part][j_part][j_item];
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // total_first.j.store ... total_first.j.result: shuffles combine acc_j_0_first[i_box_part] of 4 lanes; all of them get the result
                acc_j_0_first_warp[i_box_part] = acc_j_0_first[i_box_part];
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                acc_j_0_first_warp[i_box_part] =
                        __fadd_rn(acc_j_0_first_warp[i_box_part],
                        __shfl_xor_sync(0xffffffff, acc_j_0_first_warp[i_box_part], 2));
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                acc_j_0_first_warp[i_box_part] +=
                        __shfl_xor_sync(0xffffffff, acc_j_0_first_warp[i_box_part], 1);
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                acc_j_0_first_all[i_box_part] = acc_j_0_first_warp[i_box_part];
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // total_first
                total[i_box_part] = total[i_box_part]*shrink[i_box_part] + acc_j_0_first_all[i_box_part];
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int j_part = 0; j_part < 16; ++j_part) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 2; ++j_item) {
                        // factors_first
                        p[j_part / 2][j_part % 2][i_box_part][j_item] =
                                (__nv_bfloat16)w[i_box_part][j_part][j_item];
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // top_first
                top[i_box_part] = next[i_box_part];
            }
            for (int t = 1; t < (n - 1) / 128 - a + 1; ++t) {
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_part = 0; j_part < 16; ++j_part) {
                        #pragma unroll
                        for (int j_item = 0; j_item < 2; ++j_item) {
                            // scores.d.init
                            acc_d[i_box_part][j_part][j_item] = 0.0f;
                        }
                    }
                }
                // k_tile: k_tile_rule_first writes, scores.d.update reads
                // k_tile: k_tile_rule writes, scores.d.update reads
                wait_for_next_phase(k_tile_full, t % 2, k_tile_full_parities_);
                // acc_d: scores.d.init writes, scores.d.update reads
                keep_below(acc_d);
                register_fence();
                // warpgroups take turns from scores.d.update to sums.c.update
                begin_turn<2>();
                #pragma unroll
                for (int d_step = 0; d_step < 8; ++d_step) {
                    // scores.d.update
                    wgmma_m64n128k16_f32_bf16<2, 32, 1, 0, 0>(&acc_d[0][0][0],
                        matrix_at<16, 1024, 1>(&q_tile[d_step / 4][64*i_warpgroup][16*(d_step % 4)]),
                        matrix_at<16, 1024, 1>(&k_tile[t % 2][d_step / 4][0][16*(d_step % 4)]));
                }
                end_product_group();
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int e_part = 0; e_part < 16; ++e_part) {
                        #pragma unroll
                        for (int e_item = 0; e_item < 2; ++e_item) {
                            // sums.c.init
                            acc_c[i_box_part][e_part][e_item] =
                                    sums[i_box_part][e_part][e_item]*shrink[i_box_part];
                        }
                    }
                }
                // v_tile: v_tile_rule_first writes, sums.c.update reads
                // v_tile: v_tile_rule writes, sums.c.update reads
                wait_for_next_phase(v_tile_full, (t + 1) % 2, v_tile_full_parities_);
                // acc_c: sums.c.init writes, sums.c.update reads
                keep_below(acc_c);
                keep_words_below(p);
                register_fence();
                #pragma unroll
                for (int c_step = 0; c_step < 8; ++c_step) {
                    // sums.c.update
                    wgmma_m64n128k16_f32_bf16_registers<2, 32, 1, 1>(&acc_c[0][0][0],
                        word_at(p[c_step][0][0][0]), word_at(p[c_step][0][1][0]),
                        word_at(p[c_step][1][0][0]), word_at(p[c_step][1][1][0]),
                        matrix_at<16384, 1024, 1>(&v_tile[(t - 1) % 2][0][16*c_step][0]));
                }
                end_turn<2>();
                // acc_d: scores.d.update writes, scores reads
                end_product_group();
                // k_tile: scores_first.d.update reads, k_tile_rule overwrites
                // k_tile: scores.d.update reads, k_tile_rule overwrites
                wait_for_products<1>();
                keep_below(acc_d);
                arrive_as_warp(&k_tile_empty[t % 2]);
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_part = 0; j_part < 16; ++j_part) {
                        #pragma unroll
                        for (int j_item = 0; j_item < 2; ++j_item) {
                            // scores
                            s[i_box_part][j_part][j_item] = acc_d[i_box_part][j_part][j_item];
                        }
                    }
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // next.j.init
                    acc_j[i_box_part] = -INFINITY;
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_part = 0; j_part < 16; ++j_part) {
                        #pragma unroll
                        for (int j_item = 0; j_item < 2; ++j_item) {
                            // next.j.update
                            acc_j[i_box_part] = fmaxf(acc_j[i_box_part], s[i_box_part][j_part][j_item]);
                        }
                    }
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // next.j.store ... next.j.result: shuffles combine acc_j[i_box_part] of 4 lanes; all of them get the result
                    acc_j_warp[i_box_part] = acc_j[i_box_part];
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    acc_j_warp[i_box_part] =
                            fmaxf(acc_j_warp[i_box_part],
                            __shfl_xor_sync(0xffffffff, acc_j_warp[i_box_part], 2));
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    acc_j_warp[i_box_part] =
                            fmaxf(acc_j_warp[i_box_part],
                            __shfl_xor_sync(0xffffffff, acc_j_warp[i_box_part], 1));
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    acc_j_all[i_box_part] = acc_j_warp[i_box_part];
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // next
                    next[i_box_part] = fmaxf(top[i_box_part], acc_j_all[i_box_part]);
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // low
                    low[i_box_part] = 0.12751743f*next[i_box_part];
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // shrink
                    shrink[i_box_part] = exp2_ftz(0.12751743f*top[i_box_part] - low[i_box_part]);
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_part = 0; j_part < 16; ++j_part) {
                        #pragma unroll
                        for (int j_item = 0; j_item < 2; ++j_item) {
                            // weights
                            w[i_box_part][j_part][j_item] =
                                    exp2_ftz(0.12751743f*s[i_box_part][j_part][j_item] - low[i_box_part]);
                        }
                    }
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // total.j.init
                    acc_j_0[i_box_part] = 0.0f;
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_part = 0; j_part < 16; ++j_part) {
                        #pragma unroll
                        for (int j_item = 0; j_item < 2; ++j_item) {
                            // total.j.update
                            acc_j_0[i_box_part] += w[i_box_part][j_part][j_item];
                        }
                    }
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // total.j.store ... total.j.result: shuffles combine acc_j_0[i_box_part] of 4 lanes; all of them get the result
                    acc_j_0_warp[i_box_part] = acc_j_0[i_box_part];
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    acc_j_0_warp[i_box_part] =
                            __fadd_rn(acc_j_0_warp[i_box_part],
                            __shfl_xor_sync(0xffffffff, acc_j_0_warp[i_box_part], 2));
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    acc_j_0_warp[i_box_part] += __shfl_xor_sync(0xffffffff, acc_j_0_warp[i_box_part], 1);
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    acc_j_0_all[i_box_part] = acc_j_0_warp[i_box_part];
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // total
                    total[i_box_part] = total[i_box_part]*shrink[i_box_part] + acc_j_0_all[i_box_part];
                }
                // v_tile: sums.c.update reads, v_tile_rule overwrites
                wait_for_products<0>();
                keep_below(acc_c);
                keep_words_below(p);
                arrive_as_warp(&v_tile_empty[(t + 1) % 2]);
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int e_part = 0; e_part < 16; ++e_part) {
                        #pragma unroll
                        for (int e_item = 0; e_item < 2; ++e_item) {
                            // sums
                            sums[i_box_part][e_part][e_item] = acc_c[i_box_part][e_part][e_item];
                        }
                    }
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_part = 0; j_part < 16; ++j_part) {
                        #pragma unroll
                        for (int j_item = 0; j_item < 2; ++j_item) {
                            // factors
                            p[j_part / 2][j_part % 2][i_box_part][j_item] =
                                    (__nv_bfloat16)w[i_box_part][j_part][j_item];
                        }
                    }
                }
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    // top
                    top[i_box_part] = next[i_box_part];
                }
            }
            // q_tile: it is copied again for the next place of the grid
            arrive_as_warp(&q_tile_empty[0]);
            const int t_last = -a + (n - 1) / 128 + 1;
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int e_part = 0; e_part < 16; ++e_part) {
                    #pragma unroll
                    for (int e_item = 0; e_item < 2; ++e_item) {
                        // sums_last.c.init
                        acc_c_last[i_box_part][e_part][e_item] =
                                sums[i_box_part][e_part][e_item]*shrink[i_box_part];
                    }
                }
            }
            // v_tile: v_tile_rule_first writes, sums_last.c.update reads
            // v_tile: v_tile_rule writes, sums_last.c.update reads
            wait_for_next_phase(v_tile_full, floor_mod_i32(t_last + 1, 2), v_tile_full_parities_);
            // acc_c_last: sums_last.c.init writes, sums_last.c.update reads
            keep_below(acc_c_last);
            keep_words_below(p);
            register_fence();
            #pragma unroll
            for (int c_step = 0; c_step < 8; ++c_step) {
                // sums_last.c.update
                wgmma_m64n128k16_f32_bf16_registers<2, 32, 1, 1>(&acc_c_last[0][0][0],
                    word_at(p[c_step][0][0][0]), word_at(p[c_step][0][1][0]),
                    word_at(p[c_step][1][0][0]), word_at(p[c_step][1][1][0]),
                    matrix_at<16384, 1024, 1>(&v_tile[floor_mod_i32(t_last - 1, 2)][0][16*c_step][0]));
            }
            // acc_c_last: sums_last.c.update writes, sums_last reads
            end_product_group();
            // v_tile: sums.c.update reads, v_tile_rule overwrites
            wait_for_products<0>();
            keep_below(acc_c_last);
            if (0 < t_last) {
                arrive_as_warp(&v_tile_empty[(t_last + 1) % 2]);
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                #pragma unroll
                for (int e_part = 0; e_part < 16; ++e_part) {
                    #pragma unroll
                    for (int e_item = 0; e_item < 2; ++e_item) {
                        // sums_last
                        sums[i_box_part][e_part][e_item] = acc_c_last[i_box_part][e_part][e_item];
                    }
                }
            }
            #pragma unroll
            for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                // share
                share[i_box_part] = 1.0f / total[i_box_part];
            }
            // o_tile: the block's previous place of the grid may still use it
            wait_for_stores<0>();
            barrier_of_consumers<256>();
            if (64*i_warpgroup + 16*i_box_warp + i_box_lane <= 128*a + (n - 1) % 128) {
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    if (64*i_warpgroup + 16*i_box_warp + 8*i_box_part + i_box_lane <= 128*a + (n - 1) % 128) {
                        #pragma unroll
                        for (int e_part = 0; e_part < 16; ++e_part) {
                            alignas(4) __nv_bfloat16 o_tile_vec[2];
                            #pragma unroll
                            for (int e_item = 0; e_item < 2; ++e_item) {
                                // result
                                o_tile_vec[e_item] =
                                        (__nv_bfloat16)(sums[i_box_part][e_part][e_item]*share[i_box_part]);
                            }
                            *reinterpret_cast<unsigned int *>(&o_tile[e_part / 8][64*i_warpgroup +
                                        16*i_box_warp + 8*i_box_part +
                                        i_box_lane][(8*(e_part % 8) + 2*e_lane) ^ (8*(i_box_lane % 8))]) =
                                    *reinterpret_cast<const unsigned int *>(o_tile_vec);
                        }
                    }
                }
            }
            // o_tile: result writes, store_o reads
            proxy_fence();
            barrier_of_consumers<256>();
            if ((int)threadIdx.x == 0) {
                for (int o_store_3_part = 0; o_store_3_part < 2; ++o_store_3_part) {
                    // store_o
                    store_box_4d(&o_tile[o_store_3_part][0][0], o_map_1x1x128x64_swizzled, b, h,
                            128*((n + 127) / 128) - 128*a - 128, 64*o_store_3_part);
                }
            }
            // TMA has read shared memory before the block ends
            end_store_group();
        }
        // TMA has read shared memory before the block ends
        wait_for_stores<0>();
    }
}
