// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

// the launch gives 65536 bytes of dynamic shared memory
extern "C" __global__ void __launch_bounds__(256)
matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, const int l,
    const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int i_inner_outer = threadIdx.y;
    const int j_inner_outer = threadIdx.x;
    float acc_k[4][4];
    extern __shared__ __align__(16) unsigned char shared_memory_[];
    float (&a_fetch)[64][128] = *reinterpret_cast<float (*)[64][128]>(shared_memory_);
    float (&b_fetch)[128][64] = *reinterpret_cast<float (*)[128][64]>(shared_memory_ + 32768);

    if (64*j_outer + 64 <= m && 64*i_outer + 64 <= n) {  // a full tile
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_inner = 0; j_inner_inner < 4; ++j_inner_inner) {
                // insn.k.init
                acc_k[i_inner_inner][j_inner_inner] = 0.0f;
            }
        }
        for (int k_outer = 0; k_outer < l / 128; ++k_outer) {
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*threadIdx.y + threadIdx.x;
                const int a_dim_0 = a_fetch_rule_point / 128;
                const int a_dim_1 = a_fetch_rule_point % 128;
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
            }
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*threadIdx.y + threadIdx.x;
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                // b_fetch_rule
                b_fetch[b_dim_0][b_dim_1] = b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncthreads();
            for (int k_inner = 0; k_inner < 128; ++k_inner) {
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
            }
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            __syncthreads();
        }
        if (l % 128 != 0) {
            const int k_outer = (l - 1) / 128;
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*threadIdx.y + threadIdx.x;
                const int a_dim_0 = a_fetch_rule_point / 128;
                const int a_dim_1 = a_fetch_rule_point % 128;
                if (128*k_outer + a_dim_1 < l) {
                    // a_fetch_rule
                    a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
                }
            }
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*threadIdx.y + threadIdx.x;
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                if (128*k_outer + b_dim_0 < l) {
                    // b_fetch_rule
                    b_fetch[b_dim_0][b_dim_1] = b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                }
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncthreads();
            for (int k_inner = 0; k_inner < l - 128*k_outer; ++k_inner) {
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
            }
        }
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
        if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
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
        for (int k_outer = 0; k_outer < (l + 127) / 128; ++k_outer) {
            #pragma unroll
            for (int a_fetch_rule_round = 0; a_fetch_rule_round < 32; ++a_fetch_rule_round) {
                const int a_fetch_rule_point = 256*a_fetch_rule_round + 16*threadIdx.y + threadIdx.x;
                const int a_dim_0 = a_fetch_rule_point / 128;
                const int a_dim_1 = a_fetch_rule_point % 128;
                if (64*i_outer + a_dim_0 < n && 128*k_outer + a_dim_1 < l) {
                    // a_fetch_rule
                    a_fetch[a_dim_0][a_dim_1] = a[(64*i_outer + a_dim_0)*l + 128*k_outer + a_dim_1];
                }
            }
            #pragma unroll
            for (int b_fetch_rule_round = 0; b_fetch_rule_round < 32; ++b_fetch_rule_round) {
                const int b_fetch_rule_point = 256*b_fetch_rule_round + 16*threadIdx.y + threadIdx.x;
                const int b_dim_0 = b_fetch_rule_point / 64;
                const int b_dim_1 = b_fetch_rule_point % 64;
                if (64*j_outer + b_dim_1 < m && 128*k_outer + b_dim_0 < l) {
                    // b_fetch_rule
                    b_fetch[b_dim_0][b_dim_1] = b[(128*k_outer + b_dim_0)*m + 64*j_outer + b_dim_1];
                }
            }
            // a_fetch: a_fetch_rule writes, insn.k.update reads
            // b_fetch: b_fetch_rule writes, insn.k.update reads
            __syncthreads();
            if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
                for (int k_inner = 0; k_inner < min(128, l - 128*k_outer); ++k_inner) {
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
            // a_fetch: insn.k.update reads, a_fetch_rule overwrites
            // b_fetch: insn.k.update reads, b_fetch_rule overwrites
            __syncthreads();
        }
        if (64*j_outer + 4*j_inner_outer < m && 64*i_outer + 4*i_inner_outer < n) {
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
