// proven: order (8 dependences), in bounds, no read before a write, no races; barriers: 4, each needed
// tensor maps: a, b, c at multiples of 16 bytes, row by row; other calls are refused

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
__device__ __forceinline__ void store_box_2d(const void *from, const CUtensorMap &map, int start_0, int start_1)
{
    const unsigned int box = __cvta_generic_to_shared(from);
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&map), "r"(box), "r"(start_1), "r"(start_0) : "memory");
}
// the descriptor of a matrix in shared memory: its first element, and its leading and stride byte offsets. With SWIZZLE
// 1, 2 or 3, the matrix units find pieces of 16 bytes where TMA stores them with a swizzle of 128, 64 or 32 bytes.
template <int LEADING, int STRIDE, int SWIZZLE>
__device__ __forceinline__ unsigned long long matrix_at(const void *first)
{
    const unsigned int address = __cvta_generic_to_shared(first);
    return (STRIDE / 16ull | (SWIZZLE + 0ull) << 30) << 32 | (address / 16 + (LEADING / 16u << 16));
}
// all threads of a warpgroup, asynchronously: sums += left*right, 64x256 by 64x16 and 16x256. Thread t has the sums
// [16*(t / 32) + 8*p + t % 32 / 4][8*b + 2*(t % 4) + i] at BOX*b + PART*p + ITEM*i.
// LEFT is 0 if elements of a row of left follow each other in memory, 1 if those of a column do. RIGHT is 0 for
// those of a column of right, 1 for a row.
template <int BOX, int PART, int ITEM, int LEFT, int RIGHT> __device__ __forceinline__ void wgmma_m64n256k16_f32_bf16(
    float *sums, unsigned long long left, unsigned long long right)
{
    asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n256k16."
        "f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
        "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
        "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, "
        "%74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, "
        "%92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
        "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
        "%123, %124, %125, %126, %127}, %128, %129, p, 1, 1, %130, %131; }"
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
          "+f"(sums[15*BOX + PART + ITEM]), "+f"(sums[16*BOX]), "+f"(sums[16*BOX + ITEM]),
          "+f"(sums[16*BOX + PART]), "+f"(sums[16*BOX + PART + ITEM]), "+f"(sums[17*BOX]),
          "+f"(sums[17*BOX + ITEM]), "+f"(sums[17*BOX + PART]), "+f"(sums[17*BOX + PART + ITEM]),
          "+f"(sums[18*BOX]), "+f"(sums[18*BOX + ITEM]), "+f"(sums[18*BOX + PART]),
          "+f"(sums[18*BOX + PART + ITEM]), "+f"(sums[19*BOX]), "+f"(sums[19*BOX + ITEM]),
          "+f"(sums[19*BOX + PART]), "+f"(sums[19*BOX + PART + ITEM]), "+f"(sums[20*BOX]),
          "+f"(sums[20*BOX + ITEM]), "+f"(sums[20*BOX + PART]), "+f"(sums[20*BOX + PART + ITEM]),
          "+f"(sums[21*BOX]), "+f"(sums[21*BOX + ITEM]), "+f"(sums[21*BOX + PART]),
          "+f"(sums[21*BOX + PART + ITEM]), "+f"(sums[22*BOX]), "+f"(sums[22*BOX + ITEM]),
          "+f"(sums[22*BOX + PART]), "+f"(sums[22*BOX + PART + ITEM]), "+f"(sums[23*BOX]),
          "+f"(sums[23*BOX + ITEM]), "+f"(sums[23*BOX + PART]), "+f"(sums[23*BOX + PART + ITEM]),
          "+f"(sums[24*BOX]), "+f"(sums[24*BOX + ITEM]), "+f"(sums[24*BOX + PART]),
          "+f"(sums[24*BOX + PART + ITEM]), "+f"(sums[25*BOX]), "+f"(sums[25*BOX + ITEM]),
          "+f"(sums[25*BOX + PART]), "+f"(sums[25*BOX + PART + ITEM]), "+f"(sums[26*BOX]),
          "+f"(sums[26*BOX + ITEM]), "+f"(sums[26*BOX + PART]), "+f"(sums[26*BOX + PART + ITEM]),
          "+f"(sums[27*BOX]), "+f"(sums[27*BOX + ITEM]), "+f"(sums[27*BOX + PART]),
          "+f"(sums[27*BOX + PART + ITEM]), "+f"(sums[28*BOX]), "+f"(sums[28*BOX + ITEM]),
          "+f"(sums[28*BOX + PART]), "+f"(sums[28*BOX + PART + ITEM]), "+f"(sums[29*BOX]),
          "+f"(sums[29*BOX + ITEM]), "+f"(sums[29*BOX + PART]), "+f"(sums[29*BOX + PART + ITEM]),
          "+f"(sums[30*BOX]), "+f"(sums[30*BOX + ITEM]), "+f"(sums[30*BOX + PART]),
          "+f"(sums[30*BOX + PART + ITEM]), "+f"(sums[31*BOX]), "+f"(sums[31*BOX + ITEM]),
          "+f"(sums[31*BOX + PART]), "+f"(sums[31*BOX + PART + ITEM])
        : "l"(left), "l"(right), "n"(LEFT), "n"(RIGHT));
}

// a_map_128x64_swizzled: boxes of 128 x 64 elements of a[n][l]
// b_map_64x64_swizzled: boxes of 64 x 64 elements of b[l][m]
// c_map_16x64_swizzled: boxes of 16 x 64 elements of c[n][m]
// the launch gives 229440 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(384, 1)
matmul(const __grid_constant__ CUtensorMap a_map_128x64_swizzled,
    const __grid_constant__ CUtensorMap b_map_64x64_swizzled,
    const __grid_constant__ CUtensorMap c_map_16x64_swizzled, const int l, const int m, const int n)
{
    const int i_warpgroup = __shfl_sync(0xffffffff, (int)threadIdx.x / 128, 0);  // the same in a warp
    const int i_box_warp = (int)threadIdx.x / 32 % 4;
    const int i_box_lane = (int)threadIdx.x / 4 % 8;
    const int j_box_lane = (int)threadIdx.x % 4;
    float acc_k[2][32][2];
    extern __shared__ __align__(1024) unsigned char shared_memory_[];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&a_tile)[4][128][64] = *reinterpret_cast<__nv_bfloat16 (*)[4][128][64]>(shared_memory_);
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&b_tile)[4][4][64][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[4][4][64][64]>(shared_memory_ + 65536);
    float total[2][2][32];
    // column c of row r is at c ^ (8*(r % 8)), also for TMA and matrix descriptors
    __nv_bfloat16 (&c_tile)[2][4][2][16][64] =
            *reinterpret_cast<__nv_bfloat16 (*)[2][4][2][16][64]>(shared_memory_ + 196608);
    // mbarriers: a phase ends when the copies to a_tile and b_tile have landed
    unsigned long long (&tiles_full)[4] =
            *reinterpret_cast<unsigned long long (*)[4]>(shared_memory_ + 229376);
    // mbarriers: a warp arrives when it has read a_tile and b_tile
    unsigned long long (&tiles_empty)[4] =
            *reinterpret_cast<unsigned long long (*)[4]>(shared_memory_ + 229408);

    // all threads use the mbarriers after thread 0 prepared them
    unsigned int tiles_full_parities_ = 0u;
    start_phases<5>(tiles_full);
    unsigned int tiles_empty_parities_ = ~0u;
    start_phases<8>(tiles_empty);
    __syncthreads();
    start_turns<2>();

    const long long tiles_along_x = 8*((m + 255) / 256);
    const long long tiles = tiles_along_x * ((n + 1023) / 1024);
    // a tile is a place of the grid, along x first; each block runs one in 132, in serpentine order
    if ((int)threadIdx.x >= 256) {  // the producer's warpgroup
        give_registers<32>();
        if ((int)threadIdx.x == 256) {  // the producer
            for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
                const int i_group = (int)(tile / tiles_along_x);
                const int j_block = (int)(tile % tiles_along_x) / 8;
                const int i_block = (int)(tile % tiles_along_x) % 8;

                if (1024*i_group + 128*i_block < n) {
                    for (int k_outer = 0; k_outer < (l + 63) / 64; ++k_outer) {
                        // a_tile: insn.k.update reads, a_tile_rule overwrites
                        // b_tile: insn.k.update reads, b_tile_rule overwrites
                        wait_for_next_phase(tiles_empty, k_outer % 4, tiles_empty_parities_);
                        // a_tile_rule
                        load_box_2d(&a_tile[k_outer % 4][0][0], a_map_128x64_swizzled, 16384,
                                &tiles_full[k_outer % 4], 128*i_block + 1024*i_group, 64*k_outer);
                        for (int b_j_part = 0; b_j_part < 4; ++b_j_part) {
                            // b_tile_rule
                            load_box_2d(&b_tile[k_outer % 4][b_j_part][0][0], b_map_64x64_swizzled, 8192,
                                    &tiles_full[k_outer % 4], 64*k_outer, 256*j_block + 64*b_j_part);
                        }
                    }
                }
            }
        }
    } else if ((int)threadIdx.x < 256) {
        take_registers<232>();
        for (long long tile = blockIdx.x; tile < tiles; tile += 263 - 2 * (tile % 132)) {
            const int i_group = (int)(tile / tiles_along_x);
            const int j_block = (int)(tile % tiles_along_x) / 8;
            const int i_block = (int)(tile % tiles_along_x) % 8;

            if (1024*i_group + 128*i_block < n) {
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_box_part = 0; j_box_part < 32; ++j_box_part) {
                        #pragma unroll
                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                            // insn.k.init
                            acc_k[i_box_part][j_box_part][j_box_item] = 0.0f;
                        }
                    }
                }
                // acc_k: insn.k.init writes, insn.k.update reads
                keep_below(acc_k);
                register_fence();
                for (int k_outer = 0; k_outer < (l + 63) / 64; ++k_outer) {
                    // a_tile: a_tile_rule writes, insn.k.update reads
                    // b_tile: b_tile_rule writes, insn.k.update reads
                    wait_for_next_phase(tiles_full, k_outer % 4, tiles_full_parities_);
                    register_fence();
                    #pragma unroll
                    for (int k_step = 0; k_step < 4; ++k_step) {
                        // insn.k.update
                        wgmma_m64n256k16_f32_bf16<2, 64, 1, 0, 1>(&acc_k[0][0][0],
                            matrix_at<16, 1024, 1>(&a_tile[k_outer % 4][64*i_warpgroup][16*k_step]),
                            matrix_at<8192, 1024, 1>(&b_tile[k_outer % 4][0][16*k_step][0]));
                    }
                    // a_tile: insn.k.update reads, a_tile_rule overwrites
                    // b_tile: insn.k.update reads, b_tile_rule overwrites
                    end_product_group();
                    wait_for_products<1>();
                    if (0 < k_outer) {
                        arrive_as_warp(&tiles_empty[(k_outer + 3) % 4]);
                    }
                }
                // a_tile: insn.k.update reads, a_tile_rule overwrites
                // b_tile: insn.k.update reads, b_tile_rule overwrites
                wait_for_products<0>();
                keep_below(acc_k);
                if (0 < (l + 63) / 64) {
                    arrive_as_warp(&tiles_empty[((l + 63) / 64 + 3) % 4]);
                }
                // warpgroups take turns from insn to store_c
                begin_turn<2>();
                #pragma unroll
                for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                    #pragma unroll
                    for (int j_box_part = 0; j_box_part < 32; ++j_box_part) {
                        #pragma unroll
                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                            // insn
                            total[i_box_part][j_box_item][j_box_part] =
                                    acc_k[i_box_part][j_box_part][j_box_item];
                        }
                    }
                }
                // c_tile: the block's previous place of the grid may still use it
                wait_for_stores<0>();
                __syncwarp();
                #pragma unroll
                for (int c_part = 0; c_part < 4; ++c_part) {
                    if (256*j_block + 64*c_part < m) {
                        if (1024*i_group + 128*i_block + 64*i_warpgroup + 16*i_box_warp + i_box_lane < n &&
                                256*j_block + 64*c_part + 2*j_box_lane < m) {
                            if (256*j_block + 256 <= m &&
                                    1024*i_group + 128*i_block + 128 <= n) {  // a full tile
                                #pragma unroll
                                for (int c_box = 0; c_box < 8; ++c_box) {
                                    #pragma unroll
                                    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                                        alignas(4) __nv_bfloat16 c_tile_vec[2];
                                        #pragma unroll
                                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                                            // result
                                            c_tile_vec[j_box_item] =
                                                    (__nv_bfloat16)total[i_box_part][j_box_item][8*c_part +
                                                        c_box];
                                        }
                                        *reinterpret_cast<unsigned int *>(&c_tile[i_warpgroup][i_box_warp][c_part % 2][8*i_box_part + i_box_lane][(8*c_box + 2*j_box_lane) ^ (8*(i_box_lane % 8))]) = *reinterpret_cast<const unsigned int *>(c_tile_vec);
                                    }
                                }
                            } else {
                                #pragma unroll
                                for (int c_box = 0; c_box < 8; ++c_box) {
                                    #pragma unroll
                                    for (int i_box_part = 0; i_box_part < 2; ++i_box_part) {
                                        #pragma unroll
                                        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                                            if (1024*i_group + 128*i_block + 64*i_warpgroup +
                                                    16*i_box_warp + 8*i_box_part + i_box_lane < n &&
                                                    256*j_block + 64*c_part + 8*c_box + 2*j_box_lane +
                                                    j_box_item < m) {
                                                // result
                                                c_tile[i_warpgroup][i_box_warp][c_part % 2][8*i_box_part +
                                                            i_box_lane][(8*c_box + 2*j_box_lane +
                                                            j_box_item) ^ (8*(i_box_lane % 8))] =
                                                        (__nv_bfloat16)total[i_box_part][j_box_item][8*c_part + c_box];
                                            }
                                        }
                                    }
                                }
                            }
                        }
                        // c_tile: result writes, store_c reads
                        proxy_fence();
                        __syncwarp();
                        if (j_box_lane == 0 && i_box_lane == 0 &&
                                1024*i_group + 128*i_block + 64*i_warpgroup + 16*i_box_warp < n) {
                            // store_c
                            store_box_2d(&c_tile[i_warpgroup][i_box_warp][c_part % 2][0][0],
                                    c_map_16x64_swizzled,
                                    16*i_box_warp + 64*i_warpgroup + 128*i_block + 1024*i_group,
                                    64*c_part + 256*j_block);
                        }
                        // c_tile: store_c reads, result overwrites
                        end_store_group();
                        wait_for_stores<1>();
                        __syncwarp();
                    }
                }
                end_turn<2>();
            }
        }
        // TMA has read shared memory before the block ends
        wait_for_stores<0>();
    }
}
