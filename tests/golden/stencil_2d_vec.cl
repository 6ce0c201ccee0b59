// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, row by row; m is a multiple of 4; other calls run a text
//   without them

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(8, 4, 1)))
void stencil_2d_vec(__global const float *restrict a, __global float *restrict out, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer_outer = gid(0);
    const int i_inner = lid(1);
    const int j_outer_inner = lid(0);

    if (1 <= j_outer_outer && 32*j_outer_outer + 32 < m && 1 <= i_outer &&
            4*i_outer + 4 < n) {  // a full tile
        float a_vec[4] __attribute__((aligned(16)));
        float a_vec_0[4] __attribute__((aligned(16)));
        float a_vec_1[4] __attribute__((aligned(16)));
        float out_vec[4] __attribute__((aligned(16)));
        *(float4 *)a_vec =
                *(__global const float4 *)&a[(4*i_outer + i_inner - 1)*m + 32*j_outer_outer +
                    4*j_outer_inner];
        *(float4 *)a_vec_0 =
                *(__global const float4 *)&a[(4*i_outer + i_inner + 1)*m + 32*j_outer_outer +
                    4*j_outer_inner];
        *(float4 *)a_vec_1 =
                *(__global const float4 *)&a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner];
        #pragma unroll
        for (int j_inner = 0; j_inner < 4; ++j_inner) {
            // insn
            out_vec[j_inner] =
                    (j_inner >= 1 ? a_vec_1[j_inner - 1] :
                    a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner + j_inner - 1]) +
                    (j_inner < 3 ? a_vec_1[j_inner + 1] :
                    a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner + j_inner + 1]) +
                    a_vec[j_inner] + a_vec_0[j_inner] - 4.0f*a_vec_1[j_inner];
        }
        *(__global float4 *)&out[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner] =
                *(const float4 *)out_vec;
    } else if (32*j_outer_outer + 4*j_outer_inner + 2 <= m && 4*i_outer + i_inner + 2 <= n &&
            1 <= 4*i_outer + i_inner) {
        float a_vec[4] __attribute__((aligned(16)));
        float a_vec_0[4] __attribute__((aligned(16)));
        float a_vec_1[4] __attribute__((aligned(16)));
        float out_vec[4] __attribute__((aligned(16)));
        *(float4 *)a_vec =
                *(__global const float4 *)&a[(4*i_outer + i_inner - 1)*m + 32*j_outer_outer +
                    4*j_outer_inner];
        *(float4 *)a_vec_0 =
                *(__global const float4 *)&a[(4*i_outer + i_inner + 1)*m + 32*j_outer_outer +
                    4*j_outer_inner];
        *(float4 *)a_vec_1 =
                *(__global const float4 *)&a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner];
        #pragma unroll
        for (int j_inner = 0; j_inner < 4; ++j_inner) {
            if (32*j_outer_outer + 4*j_outer_inner + j_inner + 2 <= m &&
                    1 <= 32*j_outer_outer + 4*j_outer_inner + j_inner) {
                // insn
                out_vec[j_inner] =
                        (j_inner >= 1 ? a_vec_1[j_inner - 1] :
                        a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner + j_inner - 1]) +
                        (j_inner < 3 ? a_vec_1[j_inner + 1] :
                        a[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner + j_inner + 1]) +
                        a_vec[j_inner] + a_vec_0[j_inner] - 4.0f*a_vec_1[j_inner];
            }
        }
        if (32*j_outer_outer + 4*j_outer_inner + 4 < m && 1 <= 32*j_outer_outer + 4*j_outer_inner) {
            *(__global float4 *)&out[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner] =
                    *(const float4 *)out_vec;
        }
        // otherwise one element at a time, each under its guard: a branch would hold up what follows
        #pragma unroll
        for (int j_inner = 0; j_inner < 4; ++j_inner) {
            if (!(32*j_outer_outer + 4*j_outer_inner + 4 < m && 1 <= 32*j_outer_outer + 4*j_outer_inner) &&
                    32*j_outer_outer + 4*j_outer_inner + j_inner + 2 <= m &&
                    1 <= 32*j_outer_outer + 4*j_outer_inner + j_inner) {
                // insn
                out[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner + j_inner] =
                        out_vec[j_inner];
            }
        }
    }
}
