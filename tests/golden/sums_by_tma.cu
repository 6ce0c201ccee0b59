// proven: order (4 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// tensor maps: c at multiples of 16 bytes, row by row; other calls are refused

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
// TMA: a box in shared memory is added to the array that the map describes, without the elements outside of the
// array; the addition of an element is one atomic update
__device__ __forceinline__ void add_box_2d(const void *from, const CUtensorMap &map, int start_0, int start_1)
{
    const unsigned int box = __cvta_generic_to_shared(from);
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
        :: "l"(&map), "r"(box), "r"(start_1), "r"(start_0) : "memory");
}

// c_map_8x32: boxes of 8 x 32 elements of c[n][m]
extern "C" __global__ void __launch_bounds__(32)
split_sums(const float *__restrict__ a, const __grid_constant__ CUtensorMap c_map_8x32, const int l,
    const int m, const int n)
{
    const int k_outer = blockIdx.z;
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int j_box = threadIdx.x;
    __shared__ __align__(128) float tile[8][32];

    if (32*j_outer + 32 <= m && 8*i_outer + 8 <= n) {  // a full tile
        #pragma unroll
        for (int init_c_round = 0; init_c_round < 8; ++init_c_round) {
            const int c_init_0 = init_c_round;
            const int c_init_1 = threadIdx.x;
            // init_c
            tile[c_init_0][c_init_1] = 0.0f;
        }
    } else {
        #pragma unroll
        for (int init_c_round = 0; init_c_round < 8; ++init_c_round) {
            const int c_init_0 = init_c_round;
            const int c_init_1 = threadIdx.x;
            if (32*j_outer + c_init_1 < m && 8*i_outer + c_init_0 < n) {
                // init_c
                tile[c_init_0][c_init_1] = 0.0f;
            }
        }
    }
    // tile: init_c writes, store_c reads
    // tile: init_c writes, add reads
    proxy_fence();
    __syncwarp();
    if (32*j_outer + j_box < m) {
        for (int k_box = 0; k_box < min(2, l - 2*k_outer); ++k_box) {
            for (int i_box = 0; i_box < min(8, n - 8*i_outer); ++i_box) {
                // add
                atomicAdd(&tile[i_box][j_box],
                        a[((2*k_outer + k_box)*n + 8*i_outer + i_box)*m + 32*j_outer + j_box]);
            }
        }
    }
    // tile: add writes, store_c reads
    proxy_fence();
    __syncwarp();
    if ((int)threadIdx.x == 0) {
        // store_c
        add_box_2d(&tile[0][0], c_map_8x32, 8*i_outer, 32*j_outer);
    }
    // TMA has read shared memory before the block ends
    end_store_group();
    wait_for_stores<0>();
}
