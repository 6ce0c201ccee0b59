// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, rows without gaps; other calls run a text without them

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(2, 1, 1)))
void neighbours(__global const float *restrict a, __global float *restrict out, const int n)
{
    const int i_outer = gid(1);
    const int j_outer_outer = gid(0);
    const int j_outer_inner = lid(0);

    if (1 <= i_outer && 2*i_outer + 2 < n) {  // a full tile
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            if (2*(i_outer % 2) + i_inner <= 8*j_outer_outer + 4*j_outer_inner + 2 &&
                    8*j_outer_outer + 4*j_outer_inner <= 2*(i_outer % 2) + i_inner + 11) {
                float a_vec[4] __attribute__((aligned(16)));
                float out_vec[4] __attribute__((aligned(16)));
                float a_vec_0[4] __attribute__((aligned(16)));
                float a_vec_1[4] __attribute__((aligned(16)));
                *(float4 *)a_vec =
                        *(__global const float4 *)&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner];
                *(float4 *)a_vec_0 =
                        *(__global const float4 *)&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner - 12];
                if (2*i_outer + i_inner + 1 < n - 1 ||
                        8*j_outer_outer + 4*j_outer_inner - i_inner - 2*(i_outer % 2) + 2 < 13) {
                    *(float4 *)a_vec_1 =
                            *(__global const float4 *)&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner + 12];
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
                    *(__global float4 *)&out[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner] = *(const float4 *)out_vec;
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
                float a_vec[4] __attribute__((aligned(16)));
                float out_vec[4] __attribute__((aligned(16)));
                float a_vec_0[4] __attribute__((aligned(16)));
                float a_vec_1[4] __attribute__((aligned(16)));
                *(float4 *)a_vec =
                        *(__global const float4 *)&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner];
                *(float4 *)a_vec_0 =
                        *(__global const float4 *)&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                            4*j_outer_inner - 2*(i_outer % 2) - i_inner - 12];
                if (2*i_outer + i_inner + 1 < n - 1 ||
                        8*j_outer_outer + 4*j_outer_inner - i_inner - 2*(i_outer % 2) + 2 < 13) {
                    *(float4 *)a_vec_1 =
                            *(__global const float4 *)&a[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner + 12];
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
                    *(__global float4 *)&out[26*i_outer + 13*i_inner + 8*j_outer_outer +
                                4*j_outer_inner - 2*(i_outer % 2) - i_inner] = *(const float4 *)out_vec;
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
