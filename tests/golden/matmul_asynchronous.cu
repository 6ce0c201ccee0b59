// proven: order (8 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: b, c at multiples of 16 bytes, row by row; other calls run a text without them

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

extern "C" __global__ void __launch_bounds__(32)
matmul_vec(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int l,
    const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int i_inner_outer = threadIdx.y;
    const int j_inner_outer = threadIdx.x;
    float acc_k[4][4];
    __shared__ float a_fetch[3][16][8];
    __shared__ __align__(16) float b_fetch[3][8][32];

    if (32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                // insn.k.init
                acc_k[i_inner_inner][j_inner_inner] = 0.0f;
            }
        }
        for (int k_outer_first = 0; k_outer_first < min(2, l / 8); ++k_outer_first) {
            #pragma unroll
            for (int a_fetch_rule_first_round = 0; a_fetch_rule_first_round < 4; ++a_fetch_rule_first_round) {
                const int a_dim_0 = 4*a_fetch_rule_first_round + threadIdx.y;
                const int a_dim_1 = threadIdx.x;
                // a_fetch_rule_first
                copy_async<4>(&a_fetch[k_outer_first][a_dim_0][a_dim_1],
                        &a[(16*i_outer + a_dim_0)*l + 8*k_outer_first + a_dim_1]);
            }
            #pragma unroll
            for (int b_fetch_rule_first_round = 0; b_fetch_rule_first_round < 2; ++b_fetch_rule_first_round) {
                const int b_dim_0 = 4*b_fetch_rule_first_round + threadIdx.y;
                const int b_dim_1_outer = threadIdx.x;
                // b_fetch_rule_first
                copy_async<16>(&b_fetch[k_outer_first][b_dim_0][4*b_dim_1_outer],
                        &b[(8*k_outer_first + b_dim_0)*m + 32*j_outer + 4*b_dim_1_outer]);
            }
            end_copy_group();
        }
        if (l <= 15 && l % 8 != 0) {
            const int k_outer_first = (l - 1) / 8;
            #pragma unroll
            for (int a_fetch_rule_first_round = 0; a_fetch_rule_first_round < 4; ++a_fetch_rule_first_round) {
                const int a_dim_0 = 4*a_fetch_rule_first_round + threadIdx.y;
                const int a_dim_1 = threadIdx.x;
                if (8*k_outer_first + a_dim_1 < l) {
                    // a_fetch_rule_first
                    copy_async<4>(&a_fetch[k_outer_first][a_dim_0][a_dim_1],
                            &a[(16*i_outer + a_dim_0)*l + 8*k_outer_first + a_dim_1]);
                }
            }
            #pragma unroll
            for (int b_fetch_rule_first_round = 0; b_fetch_rule_first_round < 2; ++b_fetch_rule_first_round) {
                const int b_dim_0 = 4*b_fetch_rule_first_round + threadIdx.y;
                const int b_dim_1_outer = threadIdx.x;
                if (8*k_outer_first + b_dim_0 < l) {
                    // b_fetch_rule_first
                    copy_async<16>(&b_fetch[k_outer_first][b_dim_0][4*b_dim_1_outer],
                            &b[(8*k_outer_first + b_dim_0)*m + 32*j_outer + 4*b_dim_1_outer]);
                }
            }
            end_copy_group();
        }
        // a_fetch: a_fetch_rule_first writes, insn.k.update reads
        // b_fetch: b_fetch_rule_first writes, insn.k.update reads
        wait_for_copies<0>();
        __syncwarp();
        for (int k_outer = 0; k_outer < l / 8 - 2; ++k_outer) {
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 4; ++a_fetch_rule_round) {
                const int a_dim_0 = 4*a_fetch_rule_round + threadIdx.y;
                const int a_dim_1 = threadIdx.x;
                // a_fetch_rule
                copy_async<4>(&a_fetch[(k_outer + 2) % 3][a_dim_0][a_dim_1],
                        &a[(16*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1 + 16]);
            }
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                const int b_dim_0 = 4*b_fetch_rule_round + threadIdx.y;
                const int b_dim_1_outer = threadIdx.x;
                // b_fetch_rule
                copy_async<16>(&b_fetch[(k_outer + 2) % 3][b_dim_0][4*b_dim_1_outer],
                        &b[(8*k_outer + b_dim_0 + 16)*m + 32*j_outer + 4*b_dim_1_outer]);
            }
            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                #pragma unroll
                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                    alignas(16) float b_fetch_vec[4];
                    *reinterpret_cast<float4 *>(b_fetch_vec) =
                            *reinterpret_cast<const float4 *>(&b_fetch[k_outer % 3][k_inner][4*j_inner_outer]);
                    #pragma unroll
                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                        // insn.k.update
                        acc_k[i_inner_inner][j_inner_inner] +=
                                a_fetch[k_outer % 3][4*i_inner_outer + i_inner_inner][k_inner]*
                                b_fetch_vec[j_inner_inner];
                    }
                }
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncwarp();
        }
        for (int k_outer = max(0, l / 8 - 2); k_outer < (l + 7) / 8; ++k_outer) {
            if (8*k_outer + 16 < l) {
                #pragma unroll
                for (int a_fetch_rule_round = 0; a_fetch_rule_round < 4; ++a_fetch_rule_round) {
                    const int a_dim_0 = 4*a_fetch_rule_round + threadIdx.y;
                    const int a_dim_1 = threadIdx.x;
                    if (8*k_outer + a_dim_1 + 16 < l) {
                        // a_fetch_rule
                        copy_async<4>(&a_fetch[(k_outer + 2) % 3][a_dim_0][a_dim_1],
                                &a[(16*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1 + 16]);
                    }
                }
                #pragma unroll
                for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                    const int b_dim_0 = 4*b_fetch_rule_round + threadIdx.y;
                    const int b_dim_1_outer = threadIdx.x;
                    if (8*k_outer + b_dim_0 + 16 < l) {
                        // b_fetch_rule
                        copy_async<16>(&b_fetch[(k_outer + 2) % 3][b_dim_0][4*b_dim_1_outer],
                                &b[(8*k_outer + b_dim_0 + 16)*m + 32*j_outer + 4*b_dim_1_outer]);
                    }
                }
            }
            for (int k_inner = 0; k_inner < min(8, l - 8*k_outer); ++k_inner) {
                #pragma unroll
                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                    alignas(16) float b_fetch_vec[4];
                    *reinterpret_cast<float4 *>(b_fetch_vec) =
                            *reinterpret_cast<const float4 *>(&b_fetch[k_outer % 3][k_inner][4*j_inner_outer]);
                    #pragma unroll
                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                        // insn.k.update
                        acc_k[i_inner_inner][j_inner_inner] +=
                                a_fetch[k_outer % 3][4*i_inner_outer + i_inner_inner][k_inner]*
                                b_fetch_vec[j_inner_inner];
                    }
                }
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncwarp();
        }
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            alignas(16) float c_vec[4];
            #pragma unroll
            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                // insn
                c_vec[j_inner_inner] = acc_k[i_inner_inner][j_inner_inner];
            }
            *reinterpret_cast<float4 *>(&c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 32*j_outer +
                        4*j_inner_outer]) = *reinterpret_cast<const float4 *>(c_vec);
        }
    } else {
        if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                    if (32*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                        // insn.k.init
                        acc_k[i_inner_inner][j_inner_inner] = 0.0f;
                    }
                }
            }
        }
        for (int k_outer_first = 0; k_outer_first < min(2, (l + 7) / 8); ++k_outer_first) {
            #pragma unroll
            for (int a_fetch_rule_first_round = 0; a_fetch_rule_first_round < 4; ++a_fetch_rule_first_round) {
                const int a_dim_0 = 4*a_fetch_rule_first_round + threadIdx.y;
                const int a_dim_1 = threadIdx.x;
                if (16*i_outer + a_dim_0 < n && 8*k_outer_first + a_dim_1 < l) {
                    // a_fetch_rule_first
                    copy_async<4>(&a_fetch[k_outer_first][a_dim_0][a_dim_1],
                            &a[(16*i_outer + a_dim_0)*l + 8*k_outer_first + a_dim_1]);
                }
            }
            #pragma unroll
            for (int b_fetch_rule_first_round = 0; b_fetch_rule_first_round < 2; ++b_fetch_rule_first_round) {
                const int b_dim_0 = 4*b_fetch_rule_first_round + threadIdx.y;
                const int b_dim_1_outer = threadIdx.x;
                #pragma unroll
                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                    if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m && 8*k_outer_first + b_dim_0 < l) {
                        // b_fetch_rule_first
                        copy_async<4>(&b_fetch[k_outer_first][b_dim_0][4*b_dim_1_outer + b_dim_1_inner],
                                &b[(8*k_outer_first + b_dim_0)*m + 32*j_outer + 4*b_dim_1_outer +
                                    b_dim_1_inner]);
                    }
                }
            }
            end_copy_group();
        }
        // a_fetch: a_fetch_rule_first writes, insn.k.update reads
        // b_fetch: b_fetch_rule_first writes, insn.k.update reads
        wait_for_copies<0>();
        __syncwarp();
        for (int k_outer = 0; k_outer < (l + 7) / 8; ++k_outer) {
            if (8*k_outer + 16 < l) {
                #pragma unroll
                for (int a_fetch_rule_round = 0; a_fetch_rule_round < 4; ++a_fetch_rule_round) {
                    const int a_dim_0 = 4*a_fetch_rule_round + threadIdx.y;
                    const int a_dim_1 = threadIdx.x;
                    if (16*i_outer + a_dim_0 < n && 8*k_outer + a_dim_1 + 16 < l) {
                        // a_fetch_rule
                        copy_async<4>(&a_fetch[(k_outer + 2) % 3][a_dim_0][a_dim_1],
                                &a[(16*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1 + 16]);
                    }
                }
                #pragma unroll
                for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                    const int b_dim_0 = 4*b_fetch_rule_round + threadIdx.y;
                    const int b_dim_1_outer = threadIdx.x;
                    #pragma unroll
                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                        if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                8*k_outer + b_dim_0 + 16 < l) {
                            // b_fetch_rule
                            copy_async<4>(&b_fetch[(k_outer + 2) % 3][b_dim_0][4*b_dim_1_outer +
                                        b_dim_1_inner],
                                    &b[(8*k_outer + b_dim_0 + 16)*m + 32*j_outer + 4*b_dim_1_outer +
                                        b_dim_1_inner]);
                        }
                    }
                }
            }
            if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
                for (int k_inner = 0; k_inner < min(8, l - 8*k_outer); ++k_inner) {
                    #pragma unroll
                    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                        #pragma unroll
                        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                            if (32*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                    16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                // insn.k.update
                                acc_k[i_inner_inner][j_inner_inner] +=
                                        a_fetch[k_outer % 3][4*i_inner_outer + i_inner_inner][k_inner]*
                                        b_fetch[k_outer % 3][k_inner][4*j_inner_outer + j_inner_inner];
                            }
                        }
                    }
                }
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            end_copy_group();
            wait_for_copies<1>();
            __syncwarp();
        }
        if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                    if (32*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                        // insn
                        c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 32*j_outer + 4*j_inner_outer +
                                    j_inner_inner] = acc_k[i_inner_inner][j_inner_inner];
                    }
                }
            }
        }
    }
}
