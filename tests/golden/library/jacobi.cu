// proven: order (3 dependences), in bounds, no read before a write, no races; barriers: 3, each needed

extern "C" __global__ void __launch_bounds__(256)
jacobi(const float *__restrict__ a, float *__restrict__ out, const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer = blockIdx.x;
    const int i1_outer = threadIdx.y;
    const int j1 = threadIdx.x;
    const int i2_outer = threadIdx.y;
    const int j2 = threadIdx.x;
    const int i3_outer = threadIdx.y;
    const int j3 = threadIdx.x;
    const int i_inner_outer = threadIdx.y;
    const int j_inner = threadIdx.x;
    __shared__ float u1_tile[64][64];
    __shared__ float u2_tile[62][62];
    __shared__ float u3_tile[60][60];

    if (1 <= j_outer && 58*j_outer + 62 <= m && 1 <= i_outer && 58*i_outer + 65 <= n) {  // a full tile
        #pragma unroll
        for (int i1_inner = 0; i1_inner < 16; ++i1_inner) {
            // sweep1
            u1_tile[16*i1_outer + i1_inner][j1] =
                    0.25f*(a[(58*i_outer + 16*i1_outer + i1_inner - 4)*m + 58*j_outer + j1 - 3] +
                    a[(58*i_outer + 16*i1_outer + i1_inner - 2)*m + 58*j_outer + j1 - 3] +
                    a[(58*i_outer + 16*i1_outer + i1_inner - 3)*m + 58*j_outer + j1 - 4] +
                    a[(58*i_outer + 16*i1_outer + i1_inner - 3)*m + 58*j_outer + j1 - 2]);
        }
        // u1_tile: sweep1 writes, sweep2 reads
        __syncthreads();
        if (j2 <= 61) {
            #pragma unroll
            for (int i2_inner = 0; i2_inner < 16; ++i2_inner) {
                if (i2_inner < 14 || 16*i2_outer + i2_inner <= 61) {
                    // sweep2
                    u2_tile[16*i2_outer + i2_inner][j2] =
                            0.25f*(u1_tile[16*i2_outer + i2_inner][j2 + 1] +
                            u1_tile[16*i2_outer + i2_inner + 2][j2 + 1] +
                            u1_tile[16*i2_outer + i2_inner + 1][j2] +
                            u1_tile[16*i2_outer + i2_inner + 1][j2 + 2]);
                }
            }
        }
        // u2_tile: sweep2 writes, sweep3 reads
        __syncthreads();
        if (j3 <= 59) {
            #pragma unroll
            for (int i3_inner = 0; i3_inner < 16; ++i3_inner) {
                if (i3_inner < 12 || 16*i3_outer + i3_inner <= 59) {
                    // sweep3
                    u3_tile[16*i3_outer + i3_inner][j3] =
                            0.25f*(u2_tile[16*i3_outer + i3_inner][j3 + 1] +
                            u2_tile[16*i3_outer + i3_inner + 2][j3 + 1] +
                            u2_tile[16*i3_outer + i3_inner + 1][j3] +
                            u2_tile[16*i3_outer + i3_inner + 1][j3 + 2]);
                }
            }
        }
        // u3_tile: sweep3 writes, insn reads
        __syncthreads();
        if (j_inner <= 57) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 16; ++i_inner_inner) {
                if (i_inner_inner < 10 || 16*i_inner_outer + i_inner_inner <= 57) {
                    // insn
                    out[(58*i_outer + 16*i_inner_outer + i_inner_inner)*m + 58*j_outer + j_inner] =
                            0.25f*(u3_tile[16*i_inner_outer + i_inner_inner][j_inner + 1] +
                            u3_tile[16*i_inner_outer + i_inner_inner + 2][j_inner + 1] +
                            u3_tile[16*i_inner_outer + i_inner_inner + 1][j_inner] +
                            u3_tile[16*i_inner_outer + i_inner_inner + 1][j_inner + 2]);
                }
            }
        }
    } else {
        if (3 <= m && 3 <= n && 58*j_outer + 2 <= m && 58*i_outer + 2 <= n) {
            if (3 <= 58*j_outer + j1 && 58*j_outer + j1 <= m + 2 && 58*i_outer + 16*i1_outer <= n + 2) {
                #pragma unroll
                for (int i1_inner = 0; i1_inner < 16; ++i1_inner) {
                    if ((2 < i1_inner || 3 <= 58*i_outer + 16*i1_outer + i1_inner) &&
                            58*i_outer + 16*i1_outer + i1_inner <= n + 2) {
                        // sweep1
                        u1_tile[16*i1_outer + i1_inner][j1] = 1 <= 58*i_outer + 16*i1_outer + i1_inner -
                                3 && 58*i_outer + 16*i1_outer + i1_inner - 3 < n - 1 &&
                                1 <= 58*j_outer + j1 - 3 &&
                                58*j_outer + j1 - 3 < m - 1 ?
                                0.25f*(a[(58*i_outer + 16*i1_outer + i1_inner - 4)*m + 58*j_outer +
                                    j1 - 3] +
                                a[(58*i_outer + 16*i1_outer + i1_inner - 2)*m + 58*j_outer + j1 - 3] +
                                a[(58*i_outer + 16*i1_outer + i1_inner - 3)*m + 58*j_outer + j1 - 4] +
                                a[(58*i_outer + 16*i1_outer + i1_inner - 3)*m + 58*j_outer + j1 - 2]) :
                                a[(58*i_outer + 16*i1_outer + i1_inner - 3)*m + 58*j_outer + j1 - 3];
                    }
                }
            }
        }
        // u1_tile: sweep1 writes, sweep2 reads
        __syncthreads();
        if (3 <= m && 3 <= n && 58*j_outer + 2 <= m && 58*i_outer + 2 <= n) {
            if (j2 <= 61 && 2 <= 58*j_outer + j2 && 58*j_outer + j2 <= m + 1 &&
                    58*i_outer + 16*i2_outer <= n + 1) {
                #pragma unroll
                for (int i2_inner = 0; i2_inner < 16; ++i2_inner) {
                    if ((i2_inner < 14 || 16*i2_outer + i2_inner <= 61) &&
                            (1 < i2_inner || 2 <= 58*i_outer + 16*i2_outer + i2_inner) &&
                            58*i_outer + 16*i2_outer + i2_inner <= n + 1) {
                        // sweep2
                        u2_tile[16*i2_outer + i2_inner][j2] = 1 <= 58*i_outer + 16*i2_outer + i2_inner -
                                2 && 58*i_outer + 16*i2_outer + i2_inner - 2 < n - 1 &&
                                1 <= 58*j_outer + j2 - 2 &&
                                58*j_outer + j2 - 2 < m - 1 ?
                                0.25f*(u1_tile[16*i2_outer + i2_inner][j2 + 1] +
                                u1_tile[16*i2_outer + i2_inner + 2][j2 + 1] +
                                u1_tile[16*i2_outer + i2_inner + 1][j2] +
                                u1_tile[16*i2_outer + i2_inner + 1][j2 + 2]) :
                                a[(58*i_outer + 16*i2_outer + i2_inner - 2)*m + 58*j_outer + j2 - 2];
                    }
                }
            }
        }
        // u2_tile: sweep2 writes, sweep3 reads
        __syncthreads();
        if (3 <= m && 3 <= n && 58*j_outer + 2 <= m && 58*i_outer + 2 <= n) {
            if (j3 <= 59 && 1 <= 58*j_outer + j3 && 58*j_outer + j3 <= m && 58*i_outer + 16*i3_outer <= n) {
                #pragma unroll
                for (int i3_inner = 0; i3_inner < 16; ++i3_inner) {
                    if ((i3_inner < 12 || 16*i3_outer + i3_inner <= 59) &&
                            (0 < i3_inner || 1 <= 58*i_outer + 16*i3_outer + i3_inner) &&
                            58*i_outer + 16*i3_outer + i3_inner <= n) {
                        // sweep3
                        u3_tile[16*i3_outer + i3_inner][j3] = 1 <= 58*i_outer + 16*i3_outer + i3_inner -
                                1 && 58*i_outer + 16*i3_outer + i3_inner - 1 < n - 1 &&
                                1 <= 58*j_outer + j3 - 1 &&
                                58*j_outer + j3 - 1 < m - 1 ?
                                0.25f*(u2_tile[16*i3_outer + i3_inner][j3 + 1] +
                                u2_tile[16*i3_outer + i3_inner + 2][j3 + 1] +
                                u2_tile[16*i3_outer + i3_inner + 1][j3] +
                                u2_tile[16*i3_outer + i3_inner + 1][j3 + 2]) :
                                a[(58*i_outer + 16*i3_outer + i3_inner - 1)*m + 58*j_outer + j3 - 1];
                    }
                }
            }
        }
        // u3_tile: sweep3 writes, insn reads
        __syncthreads();
        if (j_inner <= 57 && 58*j_outer + j_inner < m && 58*i_outer + 16*i_inner_outer < n) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 16; ++i_inner_inner) {
                if ((i_inner_inner < 10 || 16*i_inner_outer + i_inner_inner <= 57) &&
                        58*i_outer + 16*i_inner_outer + i_inner_inner < n) {
                    // insn
                    out[(58*i_outer + 16*i_inner_outer + i_inner_inner)*m + 58*j_outer + j_inner] =
                            1 <= 58*i_outer + 16*i_inner_outer + i_inner_inner &&
                            58*i_outer + 16*i_inner_outer + i_inner_inner < n - 1 &&
                            1 <= 58*j_outer + j_inner &&
                            58*j_outer + j_inner < m - 1 ?
                            0.25f*(u3_tile[16*i_inner_outer + i_inner_inner][j_inner + 1] +
                            u3_tile[16*i_inner_outer + i_inner_inner + 2][j_inner + 1] +
                            u3_tile[16*i_inner_outer + i_inner_inner + 1][j_inner] +
                            u3_tile[16*i_inner_outer + i_inner_inner + 1][j_inner + 2]) :
                            a[(58*i_outer + 16*i_inner_outer + i_inner_inner)*m + 58*j_outer + j_inner];
                }
            }
        }
    }
}
