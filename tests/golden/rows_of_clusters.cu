// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 1, each needed
// tensor maps: a, b at multiples of 16 bytes, row by row; other calls are refused

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
// TMA copies this block's share of a larger box to the same place in the shared memory of all BLOCKS blocks of the
// cluster. The thread arrives at the mbarrier with the bytes of all shares, and those of each one arrive in all blocks.
template <int BLOCKS> __device__ __forceinline__ void load_share_2d(void *to, const CUtensorMap &map,
    unsigned int bytes, unsigned long long *mbarrier, int start_0, int start_1)
{
    const unsigned int box = __cvta_generic_to_shared(to), address = __cvta_generic_to_shared(mbarrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5}], [%2], %3;"
        :: "r"(box), "l"(&map), "r"(address), "h"((unsigned short)((1 << BLOCKS) - 1)),
        "r"(start_1), "r"(start_0) : "memory");
}
// waits until the phase of this parity has ended, which is the current phase of the mbarrier or the one before it
__device__ __forceinline__ void wait_for_phase(unsigned long long *mbarrier, int parity)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier);
    for (unsigned int ended = 0; !ended;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(ended) : "r"(address), "r"(parity) : "memory");
}
// all threads of the blocks of a cluster wait for each other
__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}
// all threads of the warp have done their part of the mbarrier's phase: the warp arrives once in each of the BLOCKS
// blocks of the cluster, at the mbarrier with the same place in shared memory
template <int BLOCKS> __device__ __forceinline__ void arrive_in_cluster(unsigned long long *mbarrier)
{
    const unsigned int address = __cvta_generic_to_shared(mbarrier), block = threadIdx.x % 32;
    __syncwarp();
    if (block < BLOCKS)
        asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
            "mbarrier.arrive.shared::cluster.b64 _, [there]; }" :: "r"(address), "r"(block) : "memory");
}

// a_map_64x32: boxes of 64 x 32 elements of a[n][l]
// b_map_32x32: boxes of 32 x 32 elements of b[64][l]
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(96)
rows(float *__restrict__ s, const __grid_constant__ CUtensorMap a_map_64x32,
    const __grid_constant__ CUtensorMap b_map_32x32, const int l, const int n)
{
    const int cluster = (int)blockIdx.x / 2;
    const int of_cluster = (int)blockIdx.x % 2;
    const int i_inner = threadIdx.x;
    float acc_k;
    __shared__ __align__(128) float a_tile[2][64][32];
    __shared__ __align__(128) float b_tile[2][64][32];
    __shared__ unsigned long long tiles_full[2];  // mbarriers: a phase ends when the copies to a_tile and b_tile have landed
    __shared__ unsigned long long tiles_empty[2];  // mbarriers: a warp arrives when it has read a_tile and b_tile

    // all threads use the mbarriers after thread 0 prepared them
    start_phases<2>(tiles_full);
    start_phases<4>(tiles_empty);
    cluster_barrier();
    if ((int)threadIdx.x == 64) {  // the producer
        for (int k_outer = 0; k_outer < (l + 31) / 32; ++k_outer) {
            // a_tile: insn.k.update reads, a_tile_rule overwrites
            // b_tile: insn.k.update reads, b_tile_rule overwrites
            wait_for_phase(&tiles_empty[k_outer % 2], (k_outer + 2) / 2 % 2);
            // a_tile_rule
            load_box_2d(&a_tile[k_outer % 2][0][0], a_map_64x32, 8192, &tiles_full[k_outer % 2],
                    64*of_cluster + 128*cluster, 32*k_outer);
            // b_tile_rule
            load_share_2d<2>(&b_tile[k_outer % 2][32*of_cluster][0], b_map_32x32, 8192,
                    &tiles_full[k_outer % 2], 32*of_cluster, 32*k_outer);
        }
    } else if ((int)threadIdx.x < 64) {
        // insn.k.init
        acc_k = 0.0f;
        for (int k_outer = 0; k_outer < (l + 31) / 32; ++k_outer) {
            // a_tile: a_tile_rule writes, insn.k.update reads
            // b_tile: b_tile_rule writes, insn.k.update reads
            wait_for_phase(&tiles_full[k_outer % 2], k_outer / 2 % 2);
            for (int k_inner = 0; k_inner < 32; ++k_inner) {
                // insn.k.update
                acc_k += a_tile[k_outer % 2][i_inner][k_inner]*b_tile[k_outer % 2][i_inner][k_inner];
            }
            // a_tile: insn.k.update reads, a_tile_rule overwrites
            // b_tile: insn.k.update reads, b_tile_rule overwrites
            arrive_in_cluster<2>(&tiles_empty[k_outer % 2]);
        }
        if (128*cluster + 64*of_cluster < n) {
            if (128*cluster + 64*of_cluster + i_inner < n) {
                // insn
                s[128*cluster + 64*of_cluster + i_inner] = acc_k;
            }
        }
    }
    // no block ends before all copies and arrivals of its cluster
    cluster_barrier();
}
