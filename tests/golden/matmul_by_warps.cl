// proven: order (10 dependences), in bounds, no read before a write, no races; barriers: 3, each needed

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void matmul_by_warps(__global const double *restrict a, __global const double *restrict b,
    __global double *restrict c, const int l, const int m, const int n)
{
    const int i_block = gid(1);
    const int j_block = gid(0);
    const int i_warp = (int)lid(0) / 32;
    const int i_box = (int)lid(0) / 4 % 8;
    const int j_box_lane = (int)lid(0) % 4;
    const int a_padded_dim_0_l0 = (int)lid(0) / 16;
    const int a_padded_dim_1 = (int)lid(0) % 16;
    const int b_padded_dim_0_l0 = (int)lid(0) / 16;
    const int b_padded_dim_1 = (int)lid(0) % 16;
    double acc_k[2][2];
    __local double a_padded_0[16][16];
    __local __attribute__((aligned(16))) double b_padded_0[16][16];
    double a_padded_0_next[4];
    double b_padded_0_next[4];

    #pragma unroll
    for (int j_reg = 0; j_reg < 2; ++j_reg) {
        #pragma unroll
        for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
            // insn.k.init
            acc_k[j_reg][j_box_item] = 0.0;
        }
    }
    const int k_outer_first = 0;
    #pragma unroll
    for (int a_padded_dim_0_round = 0; a_padded_dim_0_round < 4; ++a_padded_dim_0_round) {
        // a_padded_0_rule_first
        a_padded_0[4*a_padded_dim_0_round + a_padded_dim_0_l0][a_padded_dim_1] = 16*i_block +
                4*a_padded_dim_0_round + a_padded_dim_0_l0 < n &&
                16*k_outer_first + a_padded_dim_1 < l ?
                a[(16*i_block + 4*a_padded_dim_0_round + a_padded_dim_0_l0)*l + 16*k_outer_first +
                    a_padded_dim_1] : 0.0;
    }
    #pragma unroll
    for (int b_padded_dim_0_round = 0; b_padded_dim_0_round < 4; ++b_padded_dim_0_round) {
        // b_padded_0_rule_first
        b_padded_0[4*b_padded_dim_0_round + b_padded_dim_0_l0][b_padded_dim_1] = 16*k_outer_first +
                4*b_padded_dim_0_round + b_padded_dim_0_l0 < l &&
                16*j_block + b_padded_dim_1 < m ?
                b[(16*k_outer_first + 4*b_padded_dim_0_round + b_padded_dim_0_l0)*m + 16*j_block +
                    b_padded_dim_1] : 0.0;
    }
    // a_padded_0: a_padded_0_rule_first writes, insn.k.update reads
    // b_padded_0: b_padded_0_rule_first writes, insn.k.update reads
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k_outer = 0; k_outer < (l + 15) / 16; ++k_outer) {
        if (16*k_outer + 16 < l) {
            #pragma unroll
            for (int a_padded_dim_0_round = 0; a_padded_dim_0_round < 4; ++a_padded_dim_0_round) {
                // a_padded_0_load
                a_padded_0_next[a_padded_dim_0_round] = 16*i_block + 4*a_padded_dim_0_round +
                        a_padded_dim_0_l0 < n &&
                        16*k_outer + a_padded_dim_1 + 16 < l ?
                        a[(16*i_block + 4*a_padded_dim_0_round + a_padded_dim_0_l0)*l + 16*k_outer +
                            a_padded_dim_1 + 16] : 0.0;
            }
            #pragma unroll
            for (int b_padded_dim_0_round = 0; b_padded_dim_0_round < 4; ++b_padded_dim_0_round) {
                // b_padded_0_load
                b_padded_0_next[b_padded_dim_0_round] = 16*k_outer + 4*b_padded_dim_0_round +
                        b_padded_dim_0_l0 + 16 < l &&
                        16*j_block + b_padded_dim_1 < m ?
                        b[(16*k_outer + 4*b_padded_dim_0_round + b_padded_dim_0_l0 + 16)*m + 16*j_block +
                            b_padded_dim_1] : 0.0;
            }
        }
        #pragma unroll
        for (int k_step = 0; k_step < 4; ++k_step) {
            #pragma unroll
            for (int j_reg = 0; j_reg < 2; ++j_reg) {
                #pragma unroll
                for (int k_box = 0; k_box < 4; ++k_box) {
                    double b_padded_0_vec[2] __attribute__((aligned(16)));
                    *(double2 *)b_padded_0_vec =
                            *(__local const double2 *)&b_padded_0[4*k_step + k_box][8*j_reg + 2*j_box_lane];
                    #pragma unroll
                    for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                        // insn.k.update
                        acc_k[j_reg][j_box_item] +=
                                a_padded_0[8*i_warp + i_box][4*k_step + k_box]*b_padded_0_vec[j_box_item];
                    }
                }
            }
        }
        // a_padded_0: insn.k.update reads, a_padded_0_rule overwrites
        // b_padded_0: insn.k.update reads, b_padded_0_rule overwrites
        barrier(CLK_LOCAL_MEM_FENCE);
        if (16*k_outer + 16 < l) {
            #pragma unroll
            for (int a_padded_dim_0_round = 0; a_padded_dim_0_round < 4; ++a_padded_dim_0_round) {
                // a_padded_0_rule
                a_padded_0[4*a_padded_dim_0_round + a_padded_dim_0_l0][a_padded_dim_1] =
                        a_padded_0_next[a_padded_dim_0_round];
            }
            #pragma unroll
            for (int b_padded_dim_0_round = 0; b_padded_dim_0_round < 4; ++b_padded_dim_0_round) {
                // b_padded_0_rule
                b_padded_0[4*b_padded_dim_0_round + b_padded_dim_0_l0][b_padded_dim_1] =
                        b_padded_0_next[b_padded_dim_0_round];
            }
        }
        // a_padded_0: a_padded_0_rule writes, insn.k.update reads
        // b_padded_0: b_padded_0_rule writes, insn.k.update reads
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (16*j_block + 2*j_box_lane < m && 16*i_block + 8*i_warp + i_box < n) {
        #pragma unroll
        for (int j_reg = 0; j_reg < 2; ++j_reg) {
            #pragma unroll
            for (int j_box_item = 0; j_box_item < 2; ++j_box_item) {
                if (16*j_block + 8*j_reg + 2*j_box_lane + j_box_item < m) {
                    // insn
                    c[(16*i_block + 8*i_warp + i_box)*m + 16*j_block + 8*j_reg + 2*j_box_lane +
                                j_box_item] = acc_k[j_reg][j_box_item];
                }
            }
        }
    }
}
