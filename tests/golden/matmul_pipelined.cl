// proven: order (10 dependences), in bounds, no read before a write, no races; barriers: 2, each needed
// vector accesses: b, c at multiples of 16 bytes, row by row; other calls run a text without them

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(8, 4, 1)))
void matmul_vec(__global const float *restrict a, __global const float *restrict b,
    __global float *restrict c, const int l, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_inner_outer = lid(1);
    const int j_inner_outer = lid(0);
    const int a_dim_0_l1 = lid(1);
    const int a_dim_1 = lid(0);
    const int b_dim_0_l1 = lid(1);
    const int b_dim_1_outer = lid(0);
    float acc_k[4][4];
    __local float a_fetch[2][16][8];
    __local __attribute__((aligned(16))) float b_fetch[2][8][32];
    float a_fetch_next[4];
    float b_fetch_next[2][4];

    if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
        if (32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                    // insn.k.init
                    acc_k[i_inner_inner][j_inner_inner] = 0.0f;
                }
            }
        } else {
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
    }
    if (a_dim_1 < l && 16*i_outer + a_dim_0_l1 < n) {
        const int k_outer_first = 0;
        if (8 <= l && 16*i_outer + 16 <= n) {  // a full tile
            #pragma unroll
            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                // a_fetch_rule_first
                a_fetch[k_outer_first][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                        a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer_first + a_dim_1];
            }
        } else {
            #pragma unroll
            for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                    // a_fetch_rule_first
                    a_fetch[k_outer_first][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                            a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer_first + a_dim_1];
                }
            }
        }
    }
    if (b_dim_0_l1 < l && 32*j_outer + 4*b_dim_1_outer < m) {
        const int k_outer_first = 0;
        if (8 <= l && 32*j_outer + 32 <= m) {  // a full tile
            #pragma unroll
            for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                float b_vec[4] __attribute__((aligned(16)));
                float b_fetch_vec[4] __attribute__((aligned(16)));
                *(float4 *)b_vec =
                        *(__global const float4 *)&b[(8*k_outer_first + 4*b_dim_0_round + b_dim_0_l1)*m +
                            32*j_outer + 4*b_dim_1_outer];
                #pragma unroll
                for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                    // b_fetch_rule_first
                    b_fetch_vec[b_dim_1_inner] = b_vec[b_dim_1_inner];
                }
                *(__local float4 *)&b_fetch[k_outer_first][4*b_dim_0_round + b_dim_0_l1][4*b_dim_1_outer] =
                        *(const float4 *)b_fetch_vec;
            }
        } else {
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
    }
    // a_fetch: a_fetch_rule_first writes, insn.k.update reads
    // b_fetch: b_fetch_rule_first writes, insn.k.update reads
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k_outer = 0; k_outer < (l + 7) / 8; ++k_outer) {
        if (16*i_outer + a_dim_0_l1 < n && 8*k_outer + a_dim_1 + 8 < l) {
            if (16*i_outer + 16 <= n && 8*k_outer + 16 <= l) {  // a full tile
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    // a_fetch_load
                    a_fetch_next[a_dim_0_round] =
                            a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer + a_dim_1 + 8];
                }
            } else {
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                        // a_fetch_load
                        a_fetch_next[a_dim_0_round] =
                                a[(16*i_outer + 4*a_dim_0_round + a_dim_0_l1)*l + 8*k_outer + a_dim_1 + 8];
                    }
                }
            }
        }
        if (32*j_outer + 4*b_dim_1_outer < m && 8*k_outer + b_dim_0_l1 + 8 < l) {
            if (32*j_outer + 32 <= m && 8*k_outer + 16 <= l) {  // a full tile
                #pragma unroll
                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                    float b_vec[4] __attribute__((aligned(16)));
                    *(float4 *)b_vec =
                            *(__global const float4 *)&b[(8*k_outer + 4*b_dim_0_round + b_dim_0_l1 + 8)*m +
                                32*j_outer + 4*b_dim_1_outer];
                    #pragma unroll
                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                        // b_fetch_load
                        b_fetch_next[b_dim_0_round][b_dim_1_inner] = b_vec[b_dim_1_inner];
                    }
                }
            } else {
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
        }
        if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
            for (int k_inner = 0; k_inner < min(8, l - 8*k_outer); ++k_inner) {
                if (32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
                    #pragma unroll
                    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                        float b_fetch_vec[4] __attribute__((aligned(16)));
                        *(float4 *)b_fetch_vec =
                                *(__local const float4 *)&b_fetch[k_outer % 2][k_inner][4*j_inner_outer];
                        #pragma unroll
                        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                            // insn.k.update
                            acc_k[i_inner_inner][j_inner_inner] +=
                                    a_fetch[k_outer % 2][4*i_inner_outer + i_inner_inner][k_inner]*
                                    b_fetch_vec[j_inner_inner];
                        }
                    }
                } else {
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
        }
        if (16*i_outer + a_dim_0_l1 < n && 8*k_outer + a_dim_1 + 8 < l) {
            if (16*i_outer + 16 <= n && 8*k_outer + 16 <= l) {  // a full tile
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    // a_fetch_rule
                    a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                            a_fetch_next[a_dim_0_round];
                }
            } else {
                #pragma unroll
                for (int a_dim_0_round = 0; a_dim_0_round < 4; ++a_dim_0_round) {
                    if (16*i_outer + 4*a_dim_0_round + a_dim_0_l1 < n) {
                        // a_fetch_rule
                        a_fetch[(k_outer + 1) % 2][4*a_dim_0_round + a_dim_0_l1][a_dim_1] =
                                a_fetch_next[a_dim_0_round];
                    }
                }
            }
        }
        if (32*j_outer + 4*b_dim_1_outer < m && 8*k_outer + b_dim_0_l1 + 8 < l) {
            if (32*j_outer + 32 <= m && 8*k_outer + 16 <= l) {  // a full tile
                #pragma unroll
                for (int b_dim_0_round = 0; b_dim_0_round < 2; ++b_dim_0_round) {
                    float b_fetch_vec[4] __attribute__((aligned(16)));
                    #pragma unroll
                    for (int b_dim_1_inner = 0; b_dim_1_inner < 4; ++b_dim_1_inner) {
                        // b_fetch_rule
                        b_fetch_vec[b_dim_1_inner] = b_fetch_next[b_dim_0_round][b_dim_1_inner];
                    }
                    *(__local float4 *)&b_fetch[(k_outer + 1) % 2][4*b_dim_0_round +
                                b_dim_0_l1][4*b_dim_1_outer] = *(const float4 *)b_fetch_vec;
                }
            } else {
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
        }
        // a_fetch: insn.k.update reads, a_fetch_rule overwrites
        // a_fetch: a_fetch_rule writes, insn.k.update reads
        // b_fetch: insn.k.update reads, b_fetch_rule overwrites
        // b_fetch: b_fetch_rule writes, insn.k.update reads
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (32*j_outer + 4*j_inner_outer < m && 16*i_outer + 4*i_inner_outer < n) {
        if (32*j_outer + 32 <= m && 16*i_outer + 16 <= n) {  // a full tile
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                float c_vec[4] __attribute__((aligned(16)));
                #pragma unroll
                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                    // insn
                    c_vec[j_inner_inner] = acc_k[i_inner_inner][j_inner_inner];
                }
                *(__global float4 *)&c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 32*j_outer +
                            4*j_inner_outer] = *(const float4 *)c_vec;
            }
        } else {
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
