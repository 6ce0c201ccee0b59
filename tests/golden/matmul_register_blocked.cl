// proven: order (8 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void matmul(__global const float *restrict a, __global const float *restrict b, __global float *restrict c,
    const int l, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_thread = lid(1);
    const int j_thread = lid(0);
    float acc_k[4][4];
    __local float a_fetch[64][8];
    __local float b_fetch[8][64];
    float a_reg[4];
    float b_reg[4];

    if (64*j_outer + 4*j_thread < m && 64*i_outer + 4*i_thread < n) {
        if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
            #pragma unroll
            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    // insn.k.init
                    acc_k[i_reg][j_reg] = 0.0f;
                }
            }
        } else {
            #pragma unroll
            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    if (64*j_outer + 4*j_thread + j_reg < m && 64*i_outer + 4*i_thread + i_reg < n) {
                        // insn.k.init
                        acc_k[i_reg][j_reg] = 0.0f;
                    }
                }
            }
        }
    }
    for (int k_outer = 0; k_outer < (l + 7) / 8; ++k_outer) {
        if (64*i_outer + 64 <= n && 8*k_outer + 8 <= l) {  // a full tile
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*lid(1) + lid(0);
                const int a_dim_0 = a_fetch_rule_point / 8;
                const int a_dim_1 = a_fetch_rule_point % 8;
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1];
            }
        } else {
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 2; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*lid(1) + lid(0);
                const int a_dim_0 = a_fetch_rule_point / 8;
                const int a_dim_1 = a_fetch_rule_point % 8;
                if (64*i_outer + a_dim_0 < n && 8*k_outer + a_dim_1 < l) {
                    // a_fetch_rule
                    a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 8*k_outer + a_dim_1];
                }
            }
        }
        if (64*j_outer + 64 <= m && 8*k_outer + 8 <= l) {  // a full tile
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*lid(1) + lid(0);
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                // b_fetch_rule
                b_fetch[b_dim_0][b_dim_1] = b[(8*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
            }
        } else {
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 2; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*lid(1) + lid(0);
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                if (64*j_outer + b_dim_1 < m && 8*k_outer + b_dim_0 < l) {
                    // b_fetch_rule
                    b_fetch[b_dim_0][b_dim_1] = b[(8*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                }
            }
        }
        // a_fetch: a_fetch_rule writes, a_reg_rule reads
        // b_fetch: b_fetch_rule writes, b_reg_rule reads
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k_inner = 0; k_inner < min(8, l - 8*k_outer); ++k_inner) {
            if (64*i_outer + 4*i_thread < n) {
                if (64*i_outer + 64 <= n) {  // a full tile
                    #pragma unroll
                    for (int a_fetch_dim_0 = 0; a_fetch_dim_0 < 4; ++a_fetch_dim_0) {
                        // a_reg_rule
                        a_reg[a_fetch_dim_0] = a_fetch[4*i_thread + a_fetch_dim_0][k_inner];
                    }
                } else {
                    #pragma unroll
                    for (int a_fetch_dim_0 = 0; a_fetch_dim_0 < 4; ++a_fetch_dim_0) {
                        if (64*i_outer + 4*i_thread + a_fetch_dim_0 < n) {
                            // a_reg_rule
                            a_reg[a_fetch_dim_0] = a_fetch[4*i_thread + a_fetch_dim_0][k_inner];
                        }
                    }
                }
            }
            if (64*j_outer + 4*j_thread < m) {
                if (64*j_outer + 64 <= m) {  // a full tile
                    #pragma unroll
                    for (int b_fetch_dim_1 = 0; b_fetch_dim_1 < 4; ++b_fetch_dim_1) {
                        // b_reg_rule
                        b_reg[b_fetch_dim_1] = b_fetch[k_inner][4*j_thread + b_fetch_dim_1];
                    }
                } else {
                    #pragma unroll
                    for (int b_fetch_dim_1 = 0; b_fetch_dim_1 < 4; ++b_fetch_dim_1) {
                        if (64*j_outer + 4*j_thread + b_fetch_dim_1 < m) {
                            // b_reg_rule
                            b_reg[b_fetch_dim_1] = b_fetch[k_inner][4*j_thread + b_fetch_dim_1];
                        }
                    }
                }
                if (64*i_outer + 4*i_thread < n) {
                    if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
                        #pragma unroll
                        for (int i_reg = 0; i_reg < 4; ++i_reg) {
                            #pragma unroll
                            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                // insn.k.update
                                acc_k[i_reg][j_reg] += a_reg[i_reg]*b_reg[j_reg];
                            }
                        }
                    } else {
                        #pragma unroll
                        for (int i_reg = 0; i_reg < 4; ++i_reg) {
                            #pragma unroll
                            for (int j_reg = 0; j_reg < 4; ++j_reg) {
                                if (64*j_outer + 4*j_thread + j_reg < m &&
                                        64*i_outer + 4*i_thread + i_reg < n) {
                                    // insn.k.update
                                    acc_k[i_reg][j_reg] += a_reg[i_reg]*b_reg[j_reg];
                                }
                            }
                        }
                    }
                }
            }
        }
        // a_fetch: a_reg_rule reads, a_fetch_rule overwrites
        // b_fetch: b_reg_rule reads, b_fetch_rule overwrites
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (64*j_outer + 4*j_thread < m && 64*i_outer + 4*i_thread < n) {
        if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
            #pragma unroll
            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    // insn
                    c[(64*i_outer + 4*i_thread + i_reg)*m + 64*j_outer + 4*j_thread + j_reg] =
                            acc_k[i_reg][j_reg];
                }
            }
        } else {
            #pragma unroll
            for (int i_reg = 0; i_reg < 4; ++i_reg) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 4; ++j_reg) {
                    if (64*j_outer + 4*j_thread + j_reg < m && 64*i_outer + 4*i_thread + i_reg < n) {
                        // insn
                        c[(64*i_outer + 4*i_thread + i_reg)*m + 64*j_outer + 4*j_thread + j_reg] =
                                acc_k[i_reg][j_reg];
                    }
                }
            }
        }
    }
}
