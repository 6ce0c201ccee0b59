// proven: order (8 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: a, b, c at multiples of 16 bytes, row by row; other calls run a text without them

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

extern "C" __global__ void __launch_bounds__(64)
batched_matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int ne)
{
    const int e = blockIdx.x;
    const int i_warp = (int)threadIdx.x / 64;
    const int j_warp = (int)threadIdx.x / 32 % 2;
    const int i_lane = (int)threadIdx.x / 4 % 8;
    const int j_lane = (int)threadIdx.x % 4;
    float acc_k[8][2][4];
    __shared__ __align__(16) float a_tile[3][64][20];
    __shared__ __align__(16) float b_tile[3][16][64];

    #pragma unroll
    for (int i_reg = 0; i_reg < 8; ++i_reg) {
        #pragma unroll
        for (int j_reg = 0; j_reg < 2; ++j_reg) {
            #pragma unroll
            for (int j_item = 0; j_item < 4; ++j_item) {
                // insn.k.init
                acc_k[i_reg][j_reg][j_item] = 0.0f;
            }
        }
    }
    for (int k_outer_first = 0; k_outer_first < 2; ++k_outer_first) {
        #pragma unroll
        for (int a_tile_rule_first_round = 0; a_tile_rule_first_round < 4; ++a_tile_rule_first_round) {
            const int a_tile_rule_first_point = 64*a_tile_rule_first_round + threadIdx.x;
            const int a_i = a_tile_rule_first_point / 4;
            const int a_k_vec = a_tile_rule_first_point % 4;
            // a_tile_rule_first
            copy_async<16>(&a_tile[k_outer_first][a_i][4*a_k_vec],
                    &a[4096*e + 64*a_i + 16*k_outer_first + 4*a_k_vec]);
        }
        #pragma unroll
        for (int b_tile_rule_first_round = 0; b_tile_rule_first_round < 4; ++b_tile_rule_first_round) {
            const int b_tile_rule_first_point = 64*b_tile_rule_first_round + threadIdx.x;
            const int b_k = b_tile_rule_first_point / 16;
            const int b_j_vec = b_tile_rule_first_point % 16;
            // b_tile_rule_first
            copy_async<16>(&b_tile[k_outer_first][b_k][4*b_j_vec],
                    &b[4096*e + 1024*k_outer_first + 64*b_k + 4*b_j_vec]);
        }
        end_copy_group();
    }
    // a_tile: a_tile_rule_first writes, insn.k.update reads
    // b_tile: b_tile_rule_first writes, insn.k.update reads
    wait_for_copies<1>();
    __syncthreads();
    for (int k_outer = 0; k_outer < 4; ++k_outer) {
        if (k_outer <= 1) {
            #pragma unroll
            for (int a_tile_rule_round = 0; a_tile_rule_round < 4; ++a_tile_rule_round) {
                const int a_tile_rule_point = 64*a_tile_rule_round + threadIdx.x;
                const int a_i = a_tile_rule_point / 4;
                const int a_k_vec = a_tile_rule_point % 4;
                // a_tile_rule
                copy_async<16>(&a_tile[(k_outer + 2) % 3][a_i][4*a_k_vec],
                        &a[4096*e + 64*a_i + 16*k_outer + 4*a_k_vec + 32]);
            }
            #pragma unroll
            for (int b_tile_rule_round = 0; b_tile_rule_round < 4; ++b_tile_rule_round) {
                const int b_tile_rule_point = 64*b_tile_rule_round + threadIdx.x;
                const int b_k = b_tile_rule_point / 16;
                const int b_j_vec = b_tile_rule_point % 16;
                // b_tile_rule
                copy_async<16>(&b_tile[(k_outer + 2) % 3][b_k][4*b_j_vec],
                        &b[4096*e + 1024*k_outer + 64*b_k + 4*b_j_vec + 2048]);
            }
        }
        #pragma unroll
        for (int k_inner = 0; k_inner < 16; ++k_inner) {
            #pragma unroll
            for (int i_reg = 0; i_reg < 8; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 2; ++j_reg) {
                    alignas(16) float b_tile_vec[4];
                    *reinterpret_cast<float4 *>(b_tile_vec) =
                            *reinterpret_cast<const float4 *>(&b_tile[k_outer % 3][k_inner][32*j_warp +
                                16*j_reg + 4*j_lane]);
                    #pragma unroll
                    for (int j_item = 0; j_item < 4; ++j_item) {
                        // insn.k.update
                        acc_k[i_reg][j_reg][j_item] +=
                                a_tile[k_outer % 3][64*i_warp + 8*i_reg + i_lane][k_inner]*b_tile_vec[j_item];
                    }
                }
            }
        }
        // a_tile: a_tile_rule writes, insn.k.update reads
        // b_tile: b_tile_rule writes, insn.k.update reads
        // a_tile: insn.k.update reads, a_tile_rule overwrites
        // b_tile: insn.k.update reads, b_tile_rule overwrites
        end_copy_group();
        wait_for_copies<1>();
        __syncthreads();
    }
    #pragma unroll
    for (int i_reg = 0; i_reg < 8; ++i_reg) {
        #pragma unroll
        for (int j_reg = 0; j_reg < 2; ++j_reg) {
            alignas(16) float c_vec[4];
            #pragma unroll
            for (int j_item = 0; j_item < 4; ++j_item) {
                // insn
                c_vec[j_item] = acc_k[i_reg][j_reg][j_item];
            }
            *reinterpret_cast<float4 *>(&c[4096*e + 4096*i_warp + 512*i_reg + 64*i_lane + 32*j_warp +
                        16*j_reg + 4*j_lane]) = *reinterpret_cast<const float4 *>(c_vec);
        }
    }
}
