// proven: order (10 dependences), in bounds, no read before a write, no races; barriers: 3, each needed

// all lanes of a warp: c += a*b, 8x8 by 8x4 and 4x8. Elements number e of lane t:
// a[t / 4][t % 4]
// b[t % 4][t / 4]
// c[t / 4][2*(t % 4) + e]
__device__ __forceinline__ void mma_m8n8k4_f64(double &c0, double &c1,
    double a, double b)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
        "{%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c0), "+d"(c1)
        : "d"(a), "d"(b));
}

extern "C" __global__ void __launch_bounds__(64)
matmul_by_warps(const double *__restrict__ a, const double *__restrict__ b, double *__restrict__ c,
    const int l, const int m, const int n)
{
    const int i_block = blockIdx.y;
    const int j_block = blockIdx.x;
    const int i_warp = (int)threadIdx.x / 32;
    const int i_box = (int)threadIdx.x / 4 % 8;
    const int j_box_lane = (int)threadIdx.x % 4;
    const int a_padded_dim_0_l0 = (int)threadIdx.x / 16;
    const int a_padded_dim_1 = (int)threadIdx.x % 16;
    const int b_padded_dim_0_l0 = (int)threadIdx.x / 16;
    const int b_padded_dim_1 = (int)threadIdx.x % 16;
    double acc_k[2][2];
    __shared__ double a_padded_0[16][16];
    __shared__ double b_padded_0[16][16];
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
    __syncthreads();
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
                // insn.k.update
                mma_m8n8k4_f64(acc_k[j_reg][0], acc_k[j_reg][1],
                        a_padded_0[8*i_warp + i_box][4*k_step + j_box_lane],
                        b_padded_0[4*k_step + j_box_lane][8*j_reg + i_box]);
            }
        }
        // a_padded_0: insn.k.update reads, a_padded_0_rule overwrites
        // b_padded_0: insn.k.update reads, b_padded_0_rule overwrites
        __syncthreads();
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
        __syncthreads();
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
