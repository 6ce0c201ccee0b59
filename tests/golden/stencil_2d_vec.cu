// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, row by row; m is a multiple of 4; other calls run a text
//   without them

extern "C" __global__ void __launch_bounds__(32)
stencil_2d_vec(const float *__restrict__ a, float *__restrict__ out, const int m, const int n)
{
    const int i_outer = blockIdx.y;
    const int j_outer_outer = blockIdx.x;
    const int i_inner = threadIdx.y;
    const int j_outer_inner = threadIdx.x;

    if (1 <= j_outer_outer && 32*j_outer_outer + 32 < m && 1 <= i_outer &&
            4*i_outer + 4 < n) {  // a full tile
        alignas(16) float a_vec[4];
        alignas(16) float a_vec_0[4];
        alignas(16) float a_vec_1[4];
        alignas(16) float out_vec[4];
        *reinterpret_cast<float4 *>(a_vec) =
                *reinterpret_cast<const float4 *>(&a[(4*i_outer + i_inner - 1)*m + 32*j_outer_outer +
                    4*j_outer_inner]);
        *reinterpret_cast<float4 *>(a_vec_0) =
                *reinterpret_cast<const float4 *>(&a[(4*i_outer + i_inner + 1)*m + 32*j_outer_outer +
                    4*j_outer_inner]);
        *reinterpret_cast<float4 *>(a_vec_1) =
                *reinterpret_cast<const float4 *>(&a[(4*i_outer + i_inner)*m + 32*j_outer_outer +
                    4*j_outer_inner]);
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
        *reinterpret_cast<float4 *>(&out[(4*i_outer + i_inner)*m + 32*j_outer_outer + 4*j_outer_inner]) =
                *reinterpret_cast<const float4 *>(out_vec);
    } else if (32*j_outer_outer + 4*j_outer_inner + 2 <= m && 4*i_outer + i_inner + 2 <= n &&
            1 <= 4*i_outer + i_inner) {
        alignas(16) float a_vec[4];
        alignas(16) float a_vec_0[4];
        alignas(16) float a_vec_1[4];
        alignas(16) float out_vec[4];
        *reinterpret_cast<float4 *>(a_vec) =
                *reinterpret_cast<const float4 *>(&a[(4*i_outer + i_inner - 1)*m + 32*j_outer_outer +
                    4*j_outer_inner]);
        *reinterpret_cast<float4 *>(a_vec_0) =
                *reinterpret_cast<const float4 *>(&a[(4*i_outer + i_inner + 1)*m + 32*j_outer_outer +
                    4*j_outer_inner]);
        *reinterpret_cast<float4 *>(a_vec_1) =
                *reinterpret_cast<const float4 *>(&a[(4*i_outer + i_inner)*m + 32*j_outer_outer +
                    4*j_outer_inner]);
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
            *reinterpret_cast<float4 *>(&out[(4*i_outer + i_inner)*m + 32*j_outer_outer +
                        4*j_outer_inner]) = *reinterpret_cast<const float4 *>(out_vec);
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
