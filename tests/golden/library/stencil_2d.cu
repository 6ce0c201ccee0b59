// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, row by row; m is a multiple of 4; other calls run a text
//   without them

extern "C" __global__ void __launch_bounds__(512)
stencil_2d(const float *__restrict__ a, float *__restrict__ out, const int m, const int n)
{
    const int i_outer_outer = blockIdx.y;
    const int j_vec_outer = blockIdx.x;
    const int i_outer_inner = threadIdx.y;
    const int j_vec_inner = threadIdx.x;

    if (1 <= j_vec_outer && 512*j_vec_outer + 512 < m && 1 <= i_outer_outer &&
            8*i_outer_outer + 8 < n) {  // a full tile
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            alignas(16) float a_vec[4];
            alignas(16) float a_vec_0[4];
            alignas(16) float a_vec_1[4];
            alignas(16) float out_vec[4];
            *reinterpret_cast<float4 *>(a_vec) =
                    *reinterpret_cast<const float4 *>(&a[(8*i_outer_outer + 2*i_outer_inner +
                        i_inner - 1)*m + 512*j_vec_outer + 4*j_vec_inner]);
            *reinterpret_cast<float4 *>(a_vec_0) =
                    *reinterpret_cast<const float4 *>(&a[(8*i_outer_outer + 2*i_outer_inner + i_inner +
                        1)*m + 512*j_vec_outer + 4*j_vec_inner]);
            *reinterpret_cast<float4 *>(a_vec_1) =
                    *reinterpret_cast<const float4 *>(&a[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m +
                        512*j_vec_outer + 4*j_vec_inner]);
            #pragma unroll
            for (int j_item = 0; j_item < 4; ++j_item) {
                // insn
                out_vec[j_item] = a_vec[j_item] + a_vec_0[j_item] +
                        (j_item >= 1 ? a_vec_1[j_item - 1] :
                        a[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m + 512*j_vec_outer +
                            4*j_vec_inner + j_item - 1]) +
                        (j_item < 3 ? a_vec_1[j_item + 1] :
                        a[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m + 512*j_vec_outer +
                            4*j_vec_inner + j_item + 1]) - 4.0f*a_vec_1[j_item];
            }
            *reinterpret_cast<float4 *>(&out[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m +
                        512*j_vec_outer + 4*j_vec_inner]) = *reinterpret_cast<const float4 *>(out_vec);
        }
    } else if (512*j_vec_outer + 4*j_vec_inner + 2 <= m && 8*i_outer_outer + 2*i_outer_inner + 2 <= n) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 2; ++i_inner) {
            if (8*i_outer_outer + 2*i_outer_inner + i_inner + 2 <= n &&
                    1 <= 8*i_outer_outer + 2*i_outer_inner + i_inner) {
                alignas(16) float a_vec[4];
                alignas(16) float a_vec_0[4];
                alignas(16) float a_vec_1[4];
                alignas(16) float out_vec[4];
                *reinterpret_cast<float4 *>(a_vec) =
                        *reinterpret_cast<const float4 *>(&a[(8*i_outer_outer + 2*i_outer_inner +
                            i_inner - 1)*m + 512*j_vec_outer + 4*j_vec_inner]);
                *reinterpret_cast<float4 *>(a_vec_0) =
                        *reinterpret_cast<const float4 *>(&a[(8*i_outer_outer + 2*i_outer_inner + i_inner +
                            1)*m + 512*j_vec_outer + 4*j_vec_inner]);
                *reinterpret_cast<float4 *>(a_vec_1) =
                        *reinterpret_cast<const float4 *>(&a[(8*i_outer_outer + 2*i_outer_inner +
                            i_inner)*m + 512*j_vec_outer + 4*j_vec_inner]);
                #pragma unroll
                for (int j_item = 0; j_item < 4; ++j_item) {
                    if (512*j_vec_outer + 4*j_vec_inner + j_item + 2 <= m &&
                            1 <= 512*j_vec_outer + 4*j_vec_inner + j_item) {
                        // insn
                        out_vec[j_item] = a_vec[j_item] + a_vec_0[j_item] +
                                (j_item >= 1 ? a_vec_1[j_item - 1] :
                                a[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m + 512*j_vec_outer +
                                    4*j_vec_inner + j_item - 1]) +
                                (j_item < 3 ? a_vec_1[j_item + 1] :
                                a[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m + 512*j_vec_outer +
                                    4*j_vec_inner + j_item + 1]) - 4.0f*a_vec_1[j_item];
                    }
                }
                if (512*j_vec_outer + 4*j_vec_inner + 4 < m && 1 <= 512*j_vec_outer + 4*j_vec_inner) {
                    *reinterpret_cast<float4 *>(&out[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m +
                                512*j_vec_outer + 4*j_vec_inner]) =
                            *reinterpret_cast<const float4 *>(out_vec);
                }
                // otherwise one element at a time, each under its guard: a branch would hold up what follows
                #pragma unroll
                for (int j_item = 0; j_item < 4; ++j_item) {
                    if (!(512*j_vec_outer + 4*j_vec_inner + 4 < m &&
                            1 <= 512*j_vec_outer + 4*j_vec_inner) &&
                            512*j_vec_outer + 4*j_vec_inner + j_item + 2 <= m &&
                            1 <= 512*j_vec_outer + 4*j_vec_inner + j_item) {
                        // insn
                        out[(8*i_outer_outer + 2*i_outer_inner + i_inner)*m + 512*j_vec_outer +
                                    4*j_vec_inner + j_item] = out_vec[j_item];
                    }
                }
            }
        }
    }
}
