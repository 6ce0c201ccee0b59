// proven: order (10 dependences), in bounds, no read before a write, no races; barriers: 3, each needed
// vector accesses: a, b at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(256, 2)
matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int l,
    const int m, const int n)
{
    const int i_group = blockIdx.y;
    const int j_block = (int)blockIdx.x / 8;
    const int i_block = (int)blockIdx.x % 8;
    const int i_warp = (int)threadIdx.x / 128;
    const int j_warp = (int)threadIdx.x / 32 % 4;
    const int i_lane = (int)threadIdx.x / 4 % 8;
    const int j_lane = (int)threadIdx.x % 4;
    const int a_i_l0 = (int)threadIdx.x / 4;
    const int a_k_vec = (int)threadIdx.x % 4;
    const int b_k_l0 = (int)threadIdx.x / 32;
    const int b_j_vec = (int)threadIdx.x % 32;
    float acc_k[2][4][2][4];
    __shared__ float a_tile[16][132];
    __shared__ __align__(16) float b_tile[16][128];
    float a_tile_next[4][2];
    float b_tile_next[2][4];

    if (1024*i_group + 128*i_block < n) {
        #pragma unroll
        for (int i_reg = 0; i_reg < 2; ++i_reg) {
            #pragma unroll
            for (int i_item = 0; i_item < 4; ++i_item) {
                #pragma unroll
                for (int j_reg = 0; j_reg < 2; ++j_reg) {
                    #pragma unroll
                    for (int j_item = 0; j_item < 4; ++j_item) {
                        // insn.k.init
                        acc_k[i_reg][i_item][j_reg][j_item] = 0.0f;
                    }
                }
            }
        }
        if (1 <= l) {
            const int k_outer_first = 0;
            if (16 <= l && 1024*i_group + 128*i_block + 128 <= n) {  // a full tile
                #pragma unroll
                for (int a_i_round = 0; a_i_round < 2; ++a_i_round) {
                    alignas(16) float a_vec[4];
                    *reinterpret_cast<float4 *>(a_vec) =
                            *reinterpret_cast<const float4 *>(&a[(128*i_block + 1024*i_group +
                                64*a_i_round + a_i_l0)*l + 16*k_outer_first + 4*a_k_vec]);
                    #pragma unroll
                    for (int a_k_item = 0; a_k_item < 4; ++a_k_item) {
                        // a_tile_rule_first
                        a_tile[4*a_k_vec + a_k_item][64*a_i_round + a_i_l0] = a_vec[a_k_item];
                    }
                }
            } else {
                #pragma unroll
                for (int a_i_round = 0; a_i_round < 2; ++a_i_round) {
                    #pragma unroll
                    for (int a_k_item = 0; a_k_item < 4; ++a_k_item) {
                        // a_tile_rule_first
                        a_tile[4*a_k_vec + a_k_item][64*a_i_round + a_i_l0] = 128*i_block + 1024*i_group +
                                64*a_i_round + a_i_l0 < n &&
                                16*k_outer_first + 4*a_k_vec + a_k_item < l ?
                                a[(128*i_block + 1024*i_group + 64*a_i_round + a_i_l0)*l +
                                    16*k_outer_first + 4*a_k_vec + a_k_item] : 0.0f;
                    }
                }
            }
            if (16 <= l && 128*j_block + 128 <= m) {  // a full tile
                #pragma unroll
                for (int b_k_round = 0; b_k_round < 2; ++b_k_round) {
                    alignas(16) float b_vec[4];
                    alignas(16) float b_tile_vec[4];
                    *reinterpret_cast<float4 *>(b_vec) =
                            *reinterpret_cast<const float4 *>(&b[(16*k_outer_first + 8*b_k_round +
                                b_k_l0)*m + 128*j_block + 4*b_j_vec]);
                    #pragma unroll
                    for (int b_j_item = 0; b_j_item < 4; ++b_j_item) {
                        // b_tile_rule_first
                        b_tile_vec[b_j_item] = b_vec[b_j_item];
                    }
                    *reinterpret_cast<float4 *>(&b_tile[8*b_k_round + b_k_l0][4*b_j_vec]) =
                            *reinterpret_cast<const float4 *>(b_tile_vec);
                }
            } else {
                #pragma unroll
                for (int b_k_round = 0; b_k_round < 2; ++b_k_round) {
                    alignas(16) float b_tile_vec[4];
                    #pragma unroll
                    for (int b_j_item = 0; b_j_item < 4; ++b_j_item) {
                        // b_tile_rule_first
                        b_tile_vec[b_j_item] = 16*k_outer_first + 8*b_k_round + b_k_l0 < l &&
                                128*j_block + 4*b_j_vec + b_j_item < m ?
                                b[(16*k_outer_first + 8*b_k_round + b_k_l0)*m + 128*j_block + 4*b_j_vec +
                                    b_j_item] : 0.0f;
                    }
                    *reinterpret_cast<float4 *>(&b_tile[8*b_k_round + b_k_l0][4*b_j_vec]) =
                            *reinterpret_cast<const float4 *>(b_tile_vec);
                }
            }
        }
        // a_tile: a_tile_rule_first writes, insn.k.update reads
        // b_tile: b_tile_rule_first writes, insn.k.update reads
        __syncthreads();
        for (int k_outer = 0; k_outer < (l + 15) / 16; ++k_outer) {
            if (16*k_outer + 16 < l) {
                if (1024*i_group + 128*i_block + 128 <= n && 16*k_outer + 32 <= l) {  // a full tile
                    #pragma unroll
                    for (int a_i_round = 0; a_i_round < 2; ++a_i_round) {
                        alignas(16) float a_vec[4];
                        *reinterpret_cast<float4 *>(a_vec) =
                                *reinterpret_cast<const float4 *>(&a[(128*i_block + 1024*i_group +
                                    64*a_i_round + a_i_l0)*l + 16*k_outer + 4*a_k_vec + 16]);
                        #pragma unroll
                        for (int a_k_item = 0; a_k_item < 4; ++a_k_item) {
                            // a_tile_load
                            a_tile_next[a_k_item][a_i_round] = a_vec[a_k_item];
                        }
                    }
                } else {
                    #pragma unroll
                    for (int a_i_round = 0; a_i_round < 2; ++a_i_round) {
                        #pragma unroll
                        for (int a_k_item = 0; a_k_item < 4; ++a_k_item) {
                            // a_tile_load
                            a_tile_next[a_k_item][a_i_round] = 128*i_block + 1024*i_group + 64*a_i_round +
                                    a_i_l0 < n &&
                                    16*k_outer + 4*a_k_vec + a_k_item + 16 < l ?
                                    a[(128*i_block + 1024*i_group + 64*a_i_round + a_i_l0)*l + 16*k_outer +
                                        4*a_k_vec + a_k_item + 16] : 0.0f;
                        }
                    }
                }
                if (128*j_block + 128 <= m && 16*k_outer + 32 <= l) {  // a full tile
                    #pragma unroll
                    for (int b_k_round = 0; b_k_round < 2; ++b_k_round) {
                        alignas(16) float b_vec[4];
                        *reinterpret_cast<float4 *>(b_vec) =
                                *reinterpret_cast<const float4 *>(&b[(16*k_outer + 8*b_k_round + b_k_l0 +
                                    16)*m + 128*j_block + 4*b_j_vec]);
                        #pragma unroll
                        for (int b_j_item = 0; b_j_item < 4; ++b_j_item) {
                            // b_tile_load
                            b_tile_next[b_k_round][b_j_item] = b_vec[b_j_item];
                        }
                    }
                } else {
                    #pragma unroll
                    for (int b_k_round = 0; b_k_round < 2; ++b_k_round) {
                        #pragma unroll
                        for (int b_j_item = 0; b_j_item < 4; ++b_j_item) {
                            // b_tile_load
                            b_tile_next[b_k_round][b_j_item] = 16*k_outer + 8*b_k_round + b_k_l0 + 16 < l &&
                                    128*j_block + 4*b_j_vec + b_j_item < m ?
                                    b[(16*k_outer + 8*b_k_round + b_k_l0 + 16)*m + 128*j_block + 4*b_j_vec +
                                        b_j_item] : 0.0f;
                        }
                    }
                }
            }
            #pragma unroll
            for (int k_inner = 0; k_inner < 16; ++k_inner) {
                #pragma unroll
                for (int i_reg = 0; i_reg < 2; ++i_reg) {
                    #pragma unroll
                    for (int i_item = 0; i_item < 4; ++i_item) {
                        #pragma unroll
                        for (int j_reg = 0; j_reg < 2; ++j_reg) {
                            #pragma unroll
                            for (int j_item = 0; j_item < 4; ++j_item) {
                                // insn.k.update
                                acc_k[i_reg][i_item][j_reg][j_item] +=
                                        a_tile[k_inner][64*i_warp + 32*i_reg + 4*i_lane + i_item]*
                                        b_tile[k_inner][32*j_warp + 16*j_reg + 4*j_lane + j_item];
                            }
                        }
                    }
                }
            }
            // a_tile: insn.k.update reads, a_tile_rule overwrites
            // b_tile: insn.k.update reads, b_tile_rule overwrites
            __syncthreads();
            if (16*k_outer + 16 < l) {
                #pragma unroll
                for (int a_i_round = 0; a_i_round < 2; ++a_i_round) {
                    #pragma unroll
                    for (int a_k_item = 0; a_k_item < 4; ++a_k_item) {
                        // a_tile_rule
                        a_tile[4*a_k_vec + a_k_item][64*a_i_round + a_i_l0] =
                                a_tile_next[a_k_item][a_i_round];
                    }
                }
                #pragma unroll
                for (int b_k_round = 0; b_k_round < 2; ++b_k_round) {
                    alignas(16) float b_tile_vec[4];
                    #pragma unroll
                    for (int b_j_item = 0; b_j_item < 4; ++b_j_item) {
                        // b_tile_rule
                        b_tile_vec[b_j_item] = b_tile_next[b_k_round][b_j_item];
                    }
                    *reinterpret_cast<float4 *>(&b_tile[8*b_k_round + b_k_l0][4*b_j_vec]) =
                            *reinterpret_cast<const float4 *>(b_tile_vec);
                }
            }
            // a_tile: a_tile_rule writes, insn.k.update reads
            // b_tile: b_tile_rule writes, insn.k.update reads
            __syncthreads();
        }
        if (128*j_block + 32*j_warp + 4*j_lane < m && 1024*i_group + 128*i_block + 64*i_warp + 4*i_lane < n) {
            if (128*j_block + 128 <= m && 1024*i_group + 128*i_block + 128 <= n) {  // a full tile
                #pragma unroll
                for (int i_reg = 0; i_reg < 2; ++i_reg) {
                    #pragma unroll
                    for (int i_item = 0; i_item < 4; ++i_item) {
                        #pragma unroll
                        for (int j_reg = 0; j_reg < 2; ++j_reg) {
                            #pragma unroll
                            for (int j_item = 0; j_item < 4; ++j_item) {
                                // insn
                                c[(1024*i_group + 128*i_block + 64*i_warp + 32*i_reg + 4*i_lane +
                                            i_item)*m + 128*j_block + 32*j_warp + 16*j_reg + 4*j_lane +
                                            j_item] = acc_k[i_reg][i_item][j_reg][j_item];
                            }
                        }
                    }
                }
            } else {
                #pragma unroll
                for (int i_reg = 0; i_reg < 2; ++i_reg) {
                    #pragma unroll
                    for (int i_item = 0; i_item < 4; ++i_item) {
                        #pragma unroll
                        for (int j_reg = 0; j_reg < 2; ++j_reg) {
                            #pragma unroll
                            for (int j_item = 0; j_item < 4; ++j_item) {
                                if (128*j_block + 32*j_warp + 16*j_reg + 4*j_lane + j_item < m &&
                                        1024*i_group + 128*i_block + 64*i_warp + 32*i_reg + 4*i_lane +
                                        i_item < n) {
                                    // insn
                                    c[(1024*i_group + 128*i_block + 64*i_warp + 32*i_reg + 4*i_lane +
                                                i_item)*m + 128*j_block + 32*j_warp + 16*j_reg + 4*j_lane +
                                                j_item] = acc_k[i_reg][i_item][j_reg][j_item];
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
