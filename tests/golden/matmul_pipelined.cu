// proven: order (10 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: b, c at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(32)
matmul_vec(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int l,
    const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int i_inner_outer = threadIdx.y;
    const int j_inner_outer = threadIdx.x;
    const int a_dim_0_l1 = threadIdx.y;
    const int a_dim_1 = threadIdx.x;
    const int b_dim_0_l1 = threadIdx.y;
    const int b_dim_1_outer = threadIdx.x;
    float acc_k[4][4];
    __shared__ float a_fetch[2][16][8];
    __shared__ __align__(16) float b_fetch[2][8][32];
    float a_fetch_next[4];
    float b_fetch_next[2][4];

    if (8 <= l && 32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                // insn.k.init
                acc_k[i_inner_inner][j_inner_inner] = 0.0f;
            }
        }
        const int k_outer_first = 0;
        #pragma unroll
        for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
            // a_fetch_rule_first
            a_fetch[k_outer_first][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                    a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer_first + a_dim_1];
        }
        #pragma unroll
        for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
            alignas(16) float b_vec[4];
            alignas(16) float b_fetch_vec[4];
            *reinterpret_cast<float4 *>(b_vec) =
                    *reinterpret_cast<const float4 *>(&b[(8*k_outer_first + 4*b_dim_0_round +
                        b_dim_0_l1)*m + 32*j_outer + 4*b_dim_1_outer]);
            #pragma unroll
            for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                // b_fetch_rule_first
                b_fetch_vec[b_dim_1_inner] = b_vec[b_dim_1_inner];
            }
            *reinterpret_cast<float4 *>(&b_fetch[k_outer_first][4*b_dim_0_round +
                        b_dim_0_l1][4*b_dim_1_outer]) = *reinterpret_cast<const float4 *>(b_fetch_vec);
        }
        // a_fetch: a_fetch_rule_first writes, insn.k.update reads
        // b_fetch: b_fetch_rule_first writes, insn.k.update reads
        __syncwarp();
        for (int k_outer = 0; k_outer < l / 8 - 1; ++k_outer) {
            #pragma unroll
            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                // a_fetch_load
                a_fetch_next[a_dim_0_round] =
                        a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer + a_dim_1 + 8];
            }
            #pragma unroll
            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                alignas(16) float b_vec[4];
                *reinterpret_cast<float4 *>(b_vec) =
                        *reinterpret_cast<const float4 *>(&b[(8*k_outer + 4*b_dim_0_round + b_dim_0_l1 +
                            8)*m + 32*j_outer + 4*b_dim_1_outer]);
                #pragma unroll
                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                    // b_fetch_load
                    b_fetch_next[b_dim_0_round][b_dim_1_inner] = b_vec[b_dim_1_inner];
                }
            }
            for (int k_inner = 0; k_inner < 8; ++k_inner) {
                #pragma unroll
                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                    alignas(16) float b_fetch_vec[4];
                    *reinterpret_cast<float4 *>(b_fetch_vec) =
                            *reinterpret_cast<const float4 *>(&b_fetch[k_outer % 2][k_inner][4*j_inner_outer]);
                    #pragma unroll
                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                        // insn.k.update
                        acc_k[i_inner_inner][j_inner_inner] +=
                                a_fetch[k_outer % 2][4*i_inner_outer + i_inner_inner][k_inner]*
                                b_fetch_vec[j_inner_inner];
                    }
                }
            }
            #pragma unroll
            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                // a_fetch_rule
                a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                        a_fetch_next[a_dim_0_round];
            }
            #pragma unroll
            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                alignas(16) float b_fetch_vec[4];
                #pragma unroll
                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                    // b_fetch_rule
                    b_fetch_vec[b_dim_1_inner] = b_fetch_next[b_dim_0_round][b_dim_1_inner];
                }
                *reinterpret_cast<float4 *>(&b_fetch[(k_outer + 1) % 2][4*b_dim_0_round +
                            b_dim_0_l1][4*b_dim_1_outer]) = *reinterpret_cast<const float4 *>(b_fetch_vec);
            }
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncwarp();
        }
        for (int k_outer = l / 8 - 1; k_outer < (l + 7) / 8; ++k_outer) {
            if (8*k_outer + a_dim_1 + 8 < l) {
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    // a_fetch_load
                    a_fetch_next[a_dim_0_round] =
                            a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer + a_dim_1 + 8];
                }
            }
            if (8*k_outer + b_dim_0_l1 + 8 < l) {
                #pragma unroll
                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                    if (8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                        alignas(16) float b_vec[4];
                        *reinterpret_cast<float4 *>(b_vec) =
                                *reinterpret_cast<const float4 *>(&b[(8*k_outer + 4*b_dim_0_round +
                                    b_dim_0_l1 + 8)*m + 32*j_outer + 4*b_dim_1_outer]);
                        #pragma unroll
                        for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                            // b_fetch_load
                            b_fetch_next[b_dim_0_round][b_dim_1_inner] = b_vec[b_dim_1_inner];
                        }
                    }
                }
            }
            for (int k_inner = 0; k_inner < min(8, l - 8*k_outer); ++k_inner) {
                #pragma unroll
                for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                    alignas(16) float b_fetch_vec[4];
                    *reinterpret_cast<float4 *>(b_fetch_vec) =
                            *reinterpret_cast<const float4 *>(&b_fetch[k_outer % 2][k_inner][4*j_inner_outer]);
                    #pragma unroll
                    for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                        // insn.k.update
                        acc_k[i_inner_inner][j_inner_inner] +=
                                a_fetch[k_outer % 2][4*i_inner_outer + i_inner_inner][k_inner]*
                                b_fetch_vec[j_inner_inner];
                    }
                }
            }
            if (8*k_outer + a_dim_1 + 8 < l) {
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    // a_fetch_rule
                    a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                            a_fetch_next[a_dim_0_round];
                }
            }
            if (8*k_outer + b_dim_0_l1 + 8 < l) {
                #pragma unroll
                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                    if (8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                        alignas(16) float b_fetch_vec[4];
                        #pragma unroll
                        for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                            // b_fetch_rule
                            b_fetch_vec[b_dim_1_inner] = b_fetch_next[b_dim_0_round][b_dim_1_inner];
                        }
                        *reinterpret_cast<float4 *>(&b_fetch[(k_outer + 1) % 2][4*b_dim_0_round +
                                    b_dim_0_l1][4*b_dim_1_outer]) =
                                *reinterpret_cast<const float4 *>(b_fetch_vec);
                    }
                }
            }
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            // b_fetch: b_fetch_rule writes, insn.k.update reads
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
        if (a_dim_1 < l && 16*i_outer + a_dim_0_l1 < n) {
            const int k_outer_first = 0;
            #pragma unroll
            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                    // a_fetch_rule_first
                    a_fetch[k_outer_first][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                            a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer_first + a_dim_1];
                }
            }
        }
        if (b_dim_0_l1 < l && 32*j_outer + 4*b_dim_1_outer < m) {
            const int k_outer_first = 0;
            #pragma unroll
            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                #pragma unroll
                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                    if (4*b_dim_0_round + b_dim_0_l1 < l &&
                            32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m) {
                        // b_fetch_rule_first
                        b_fetch[k_outer_first][4*b_dim_0_round + b_dim_0_l1][4*b_dim_1_outer +
                                    b_dim_1_inner] =
                                b[(8*k_outer_first + 4*b_dim_0_round + b_dim_0_l1)*m + 32*j_outer +
                                    4*b_dim_1_outer + b_dim_1_inner];
                    }
                }
            }
        }
        // a_fetch: a_fetch_rule_first writes, insn.k.update reads
        // b_fetch: b_fetch_rule_first writes, insn.k.update reads
        __syncwarp();
        for (int k_outer = 0; k_outer < (l + 7) / 8; ++k_outer) {
            if (16*i_outer + a_dim_0_l1 < n && 8*k_outer + a_dim_1 + 8 < l) {
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                        // a_fetch_load
                        a_fetch_next[a_dim_0_round] =
                                a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer + a_dim_1 + 8];
                    }
                }
            }
            if (32*j_outer + 4*b_dim_1_outer < m && 8*k_outer + b_dim_0_l1 + 8 < l) {
                #pragma unroll
                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                    #pragma unroll
                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                        if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                            // b_fetch_load
                            b_fetch_next[b_dim_0_round][b_dim_1_inner] =
                                    b[(8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8)*m + 32*j_outer +
                                        4*b_dim_1_outer + b_dim_1_inner];
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
                                        a_fetch[k_outer % 2][4*i_inner_outer + i_inner_inner][k_inner]*
                                        b_fetch[k_outer % 2][k_inner][4*j_inner_outer + j_inner_inner];
                            }
                        }
                    }
                }
            }
            if (16*i_outer + a_dim_0_l1 < n && 8*k_outer + a_dim_1 + 8 < l) {
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                        // a_fetch_rule
                        a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                a_fetch_next[a_dim_0_round];
                    }
                }
            }
            if (32*j_outer + 4*b_dim_1_outer < m && 8*k_outer + b_dim_0_l1 + 8 < l) {
                #pragma unroll
                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                    #pragma unroll
                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                        if (32*j_outer + 4*b_dim_1_outer + b_dim_1_inner < m &&
                                8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8 < l) {
                            // b_fetch_rule
                            b_fetch[(k_outer + 1) % 2][4*b_dim_0_round + b_dim_0_l1][4*b_dim_1_outer +
                                        b_dim_1_inner] = b_fetch_next[b_dim_0_round][b_dim_1_inner];
                        }
                    }
                }
            }
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            // b_fetch: b_fetch_rule writes, insn.k.update reads
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
