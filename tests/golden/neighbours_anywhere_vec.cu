// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, rows without gaps; other calls run a text without them

extern "C" __global__ void __launch_bounds__(2)
neighbours(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer_outer = blockIdx.x;
    const int j_outer_inner = threadIdx.x;

    if (1 <= i_outer && 2*i_outer + 2 < n) {  // a full tile
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            if (2*(i_outer % 2) + i_inner <= 8*j_outer_outer + 4*j_outer_inner + 2 &&
                    8*j_outer_outer + 4*j_outer_inner <= 2*(i_outer % 2) + i_inner + 11) {
                alignas(16) float a_vec[4];
                alignas(16) float out_vec[4];
                alignas(16) float a_vec_0[4];
                alignas(16) float a_vec_1[4];
                *reinterpret_cast<float4 *>(a_vec) =
                        *reinterpret_cast<const float4 *>(&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner]);
                *reinterpret_cast<float4 *>(a_vec_0) =
                        *reinterpret_cast<const float4 *>(&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner - 12]);
                if (2*i_outer + i_inner + 1 < n - 1 ||
                        8*j_outer_outer + 4*j_outer_inner - i_inner - 2*(i_outer % 2) + 2 < 13) {
                    *reinterpret_cast<float4 *>(a_vec_1) =
                            *reinterpret_cast<const float4 *>(&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner + 12]);
                } else {
                    #pragma unroll
                    for (int j_inner = 0; j_inner < 4; ++j_inner) {
                        if ((2*(i_outer % 2) + i_inner < 8*j_outer_outer + 4*j_outer_inner + j_inner &&
                                8*j_outer_outer + 4*j_outer_inner + j_inner <= 2*(i_outer % 2) + i_inner +
                                11) && j_inner < 3) {
                            // insn
                            a_vec_1[j_inner + 1] =
                                    a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                        j_inner - 2*(i_outer % 2) - i_inner + 13];
                        }
                    }
                }
                #pragma unroll
                for (int j_inner = 0; j_inner < 4; ++j_inner) {
                    if (2*(i_outer % 2) + i_inner < 8*j_outer_outer + 4*j_outer_inner + j_inner &&
                            8*j_outer_outer + 4*j_outer_inner + j_inner <= 2*(i_outer % 2) + i_inner + 11) {
                        // insn
                        out_vec[j_inner] =
                                (j_inner >= 1 ? a_vec_0[j_inner - 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner - 13]) +
                                (j_inner < 3 ? a_vec_1[j_inner + 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner + 13]) +
                                (j_inner >= 1 ? a_vec[j_inner - 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner - 1]) +
                                (j_inner < 3 ? a_vec[j_inner + 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner + 1]) - 4.0f*a_vec[j_inner];
                    }
                }
                if (2*(i_outer % 2) + i_inner < 8*j_outer_outer + 4*j_outer_inner &&
                        8*j_outer_outer + 4*j_outer_inner + 3 <= 2*(i_outer % 2) + i_inner + 11) {
                    *reinterpret_cast<float4 *>(&out[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner]) =
                            *reinterpret_cast<const float4 *>(out_vec);
                }
                // otherwise one element at a time, each under its guard: a branch would hold up what follows
                #pragma unroll
                for (int j_inner = 0; j_inner < 4; ++j_inner) {
                    if (!(2*(i_outer % 2) + i_inner < 8*j_outer_outer + 4*j_outer_inner &&
                            8*j_outer_outer + 4*j_outer_inner + 3 <= 2*(i_outer % 2) + i_inner + 11) &&
                            2*(i_outer % 2) + i_inner < 8*j_outer_outer + 4*j_outer_inner + j_inner &&
                            8*j_outer_outer + 4*j_outer_inner + j_inner <= 2*(i_outer % 2) + i_inner + 11) {
                        // insn
                        out[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner] = out_vec[j_inner];
                    }
                }
            }
        }
    } else if (8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) + 2*i_outer <= n + 11) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            if (2*i_outer + i_inner + 2 <= n && 1 <= 2*i_outer + i_inner &&
                    i_inner <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) &&
                    8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) <= i_inner + 13) {
                alignas(16) float a_vec[4];
                alignas(16) float out_vec[4];
                alignas(16) float a_vec_0[4];
                alignas(16) float a_vec_1[4];
                *reinterpret_cast<float4 *>(a_vec) =
                        *reinterpret_cast<const float4 *>(&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner]);
                *reinterpret_cast<float4 *>(a_vec_0) =
                        *reinterpret_cast<const float4 *>(&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner - 12]);
                if (2*i_outer + i_inner + 1 < n - 1 ||
                        8*j_outer_outer + 4*j_outer_inner - i_inner - 2*(i_outer % 2) + 2 < 13) {
                    *reinterpret_cast<float4 *>(a_vec_1) =
                            *reinterpret_cast<const float4 *>(&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner + 12]);
                } else {
                    #pragma unroll
                    for (int j_inner = 0; j_inner < 4; ++j_inner) {
                        if ((i_inner + 3 <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) +
                                j_inner &&
                                8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) +
                                j_inner <= i_inner + 13) && j_inner < 3) {
                            // insn
                            a_vec_1[j_inner + 1] =
                                    a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                        j_inner - 2*(i_outer % 2) - i_inner + 13];
                        }
                    }
                }
                #pragma unroll
                for (int j_inner = 0; j_inner < 4; ++j_inner) {
                    if (i_inner + 3 <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) +
                            j_inner &&
                            8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) + j_inner <= i_inner +
                            13) {
                        // insn
                        out_vec[j_inner] =
                                (j_inner >= 1 ? a_vec_0[j_inner - 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner - 13]) +
                                (j_inner < 3 ? a_vec_1[j_inner + 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner + 13]) +
                                (j_inner >= 1 ? a_vec[j_inner - 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner - 1]) +
                                (j_inner < 3 ? a_vec[j_inner + 1] :
                                a[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner + 1]) - 4.0f*a_vec[j_inner];
                    }
                }
                if (i_inner + 3 <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) &&
                        8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) + 2 < i_inner + 13) {
                    *reinterpret_cast<float4 *>(&out[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner]) =
                            *reinterpret_cast<const float4 *>(out_vec);
                }
                // otherwise one element at a time, each under its guard: a branch would hold up what follows
                #pragma unroll
                for (int j_inner = 0; j_inner < 4; ++j_inner) {
                    if (!(i_inner + 3 <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) &&
                            8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) + 2 < i_inner + 13) &&
                            i_inner + 3 <= 8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) +
                            j_inner &&
                            8*j_outer_outer + 4*j_outer_inner + 2*((i_outer + 1) % 2) + j_inner <= i_inner +
                            13) {
                        // insn
                        out[26*i_outer + 13*i_inner + 8*j_outer_outer + 4*j_outer_inner +
                                    j_inner - 2*(i_outer % 2) - i_inner] = out_vec[j_inner];
                    }
                }
            }
        }
    }
}
