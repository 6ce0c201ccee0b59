// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void matmul(__global const float *restrict a, __global const float *restrict b, __global float *restrict c,
    const int l, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_inner_outer = lid(1);
    const int j_inner_outer = lid(0);
    float acc_k[4][4];
    __local float a_fetch[64][128];
    __local float b_fetch[128][64];

    if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
        if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
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
                    if (64*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                            64*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                        // insn.k.init
                        acc_k[i_inner_inner][j_inner_inner] = 0.0f;
                    }
                }
            }
        }
    }
    for (int k_outer = 0; k_outer < (l + 127) / 128; ++k_outer) {
        if (64*i_outer + 64 <= n && 128*k_outer + 128 <= l) {  // a full tile
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*lid(1) + lid(0);
                const int a_dim_0 = a_fetch_rule_point / 128;
                const int a_dim_1 = a_fetch_rule_point % 128;
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
            }
        } else {
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*lid(1) + lid(0);
                const int a_dim_0 = a_fetch_rule_point / 128;
                const int a_dim_1 = a_fetch_rule_point % 128;
                if (64*i_outer + a_dim_0 < n && 128*k_outer + a_dim_1 < l) {
                    // a_fetch_rule
                    a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
                }
            }
        }
        if (64*j_outer + 64 <= m && 128*k_outer + 128 <= l) {  // a full tile
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*lid(1) + lid(0);
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                // b_fetch_rule
                b_fetch[b_dim_0][b_dim_1] = b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
            }
        } else {
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*lid(1) + lid(0);
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                if (64*j_outer + b_dim_1 < m && 128*k_outer + b_dim_0 < l) {
                    // b_fetch_rule
                    b_fetch[b_dim_0][b_dim_1] = b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                }
            }
        }
        // a_fetch: a_fetch_rule writes, insn.k.update reads
        // b_fetch: b_fetch_rule writes, insn.k.update reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
            for (int k_inner = 0; k_inner < min(128, l - 128*k_outer); ++k_inner) {
                if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
                    #pragma unroll
                    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                        #pragma unroll
                        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                            // insn.k.update
                            acc_k[i_inner_inner][j_inner_inner] +=
                                    a_fetch[4*i_inner_outer + i_inner_inner][k_inner]*
                                    b_fetch[k_inner][4*j_inner_outer + j_inner_inner];
                        }
                    }
                } else {
                    #pragma unroll
                    for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                        #pragma unroll
                        for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                            if (64*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                                    64*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                                // insn.k.update
                                acc_k[i_inner_inner][j_inner_inner] +=
                                        a_fetch[4*i_inner_outer + i_inner_inner][k_inner]*
                                        b_fetch[k_inner][4*j_inner_outer + j_inner_inner];
                            }
                        }
                    }
                }
            }
        }
        // a_fetch: insn.k.update reads, a_fetch_rule overwrites
        // b_fetch: insn.k.update reads, b_fetch_rule overwrites
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
        if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                    // insn
                    c[(64*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer + 4*j_inner_outer +
                                j_inner_inner] = acc_k[i_inner_inner][j_inner_inner];
                }
            }
        } else {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                    if (64*j_outer + 4*j_inner_outer + j_inner_inner < m &&
                            64*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                        // insn
                        c[(64*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer + 4*j_inner_outer +
                                    j_inner_inner] = acc_k[i_inner_inner][j_inner_inner];
                    }
                }
            }
        }
    }
}
