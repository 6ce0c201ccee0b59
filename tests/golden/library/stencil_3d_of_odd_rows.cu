// proven: order (no dependences), in bounds, no races
// vector accesses: a at multiples of 8 bytes, row by row; a, out at multiples of 16 bytes, rows without gaps;
//   other calls run a text without them

extern "C" __global__ void __launch_bounds__(256, 5)
stencil_3d(const float *__restrict__ a, float *__restrict__ out, const int l, const int m, const int n)
{
    const int i_outer = blockIdx.z;
    const int j_outer_outer = blockIdx.y;
    const int k_vec_outer = blockIdx.x;
    const int j_outer_inner = threadIdx.y;
    const int k_vec_inner = threadIdx.x;

    if (1 <= k_vec_outer && 128*k_vec_outer + 130 <= l && 1 <= j_outer_outer &&
            16*j_outer_outer + 19 <= m && 1 <= i_outer && 4*i_outer + 4 < n) {  // a full tile
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            #pragma unroll
            for (int j_inner = 0; j_inner < 2; ++j_inner) {
                alignas(8) float a_vec[4];
                alignas(8) float a_vec_0[4];
                alignas(8) float a_vec_1[4];
                alignas(8) float a_vec_2[4];
                alignas(16) float a_vec_3[4];
                alignas(16) float out_vec[4];
                #pragma unroll
                for (int k_item = 0; k_item < 4; k_item += 2)
                    *reinterpret_cast<float2 *>(&a_vec[k_item]) =
                            *reinterpret_cast<const float2 *>(&a[((4*i_outer + i_inner - 1)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner + k_item - 2*i_inner - 2*j_inner]);
                #pragma unroll
                for (int k_item = 0; k_item < 4; k_item += 2)
                    *reinterpret_cast<float2 *>(&a_vec_0[k_item]) =
                            *reinterpret_cast<const float2 *>(&a[((4*i_outer + i_inner + 1)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner + k_item - 2*i_inner - 2*j_inner]);
                #pragma unroll
                for (int k_item = 0; k_item < 4; k_item += 2)
                    *reinterpret_cast<float2 *>(&a_vec_1[k_item]) =
                            *reinterpret_cast<const float2 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner - 1)*l + 128*k_vec_outer +
                                4*k_vec_inner + k_item - 2*i_inner - 2*j_inner]);
                #pragma unroll
                for (int k_item = 0; k_item < 4; k_item += 2)
                    *reinterpret_cast<float2 *>(&a_vec_2[k_item]) =
                            *reinterpret_cast<const float2 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner + 1)*l + 128*k_vec_outer +
                                4*k_vec_inner + k_item - 2*i_inner - 2*j_inner]);
                *reinterpret_cast<float4 *>(a_vec_3) =
                        *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner)*m + 16*j_outer_outer +
                            2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                            4*k_vec_inner - 2*i_inner - 2*j_inner]);
                #pragma unroll
                for (int k_item = 0; k_item < 4; ++k_item) {
                    // insn
                    out_vec[k_item] = a_vec[k_item] + a_vec_0[k_item] + a_vec_1[k_item] + a_vec_2[k_item] +
                            (k_item >= 1 ? a_vec_3[k_item - 1] :
                            a[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner + j_inner)*l +
                                128*k_vec_outer + 4*k_vec_inner + k_item - 2*i_inner - 2*j_inner - 1]) +
                            (k_item < 3 ? a_vec_3[k_item + 1] :
                            a[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner + j_inner)*l +
                                128*k_vec_outer + 4*k_vec_inner + k_item - 2*i_inner - 2*j_inner + 1]) -
                            6.0f*a_vec_3[k_item];
                }
                *reinterpret_cast<float4 *>(&out[((4*i_outer + i_inner)*m + 16*j_outer_outer +
                            2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                            4*k_vec_inner - 2*i_inner - 2*j_inner]) =
                        *reinterpret_cast<const float4 *>(out_vec);
            }
        }
    } else if (128*k_vec_outer + 4*k_vec_inner <= l + 6 && 16*j_outer_outer + 2*j_outer_inner + 2 < m &&
            1 <= 32*k_vec_outer + 8*j_outer_outer + 2*i_outer + k_vec_inner + j_outer_inner &&
            128*k_vec_outer + 8*i_outer + 4*k_vec_inner + 4 <= 2*n + l) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            #pragma unroll
            for (int j_inner = 0; j_inner < 2; ++j_inner) {
                if (j_inner + i_inner <= 64*k_vec_outer + 2*k_vec_inner + 1 &&
                        128*k_vec_outer + 4*k_vec_inner + 2 <= 2*j_inner + 2*i_inner + l &&
                        1 <= 16*j_outer_outer + 2*j_outer_inner + j_inner && 4*i_outer + i_inner + 2 <= n &&
                        1 <= 4*i_outer + i_inner) {
                    alignas(16) float a_vec[4];
                    alignas(16) float out_vec[4];
                    alignas(16) float a_vec_0[4];
                    alignas(16) float a_vec_1[4];
                    alignas(16) float a_vec_2[4];
                    alignas(16) float a_vec_3[4];
                    alignas(16) float a_vec_4[4];
                    alignas(16) float a_vec_5[4];
                    alignas(16) float a_vec_6[4];
                    alignas(16) float a_vec_7[4];
                    *reinterpret_cast<float4 *>(a_vec) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner]);
                    *reinterpret_cast<float4 *>(a_vec_0) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner - 1)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner - 2]);
                    *reinterpret_cast<float4 *>(a_vec_1) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner - 1)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner + 2]);
                    *reinterpret_cast<float4 *>(a_vec_2) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner + 1)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner - 2]);
                    *reinterpret_cast<float4 *>(a_vec_3) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner + 1)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner + 2]);
                    *reinterpret_cast<float4 *>(a_vec_4) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner - 1)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner - 2]);
                    *reinterpret_cast<float4 *>(a_vec_5) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner - 1)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner + 2]);
                    *reinterpret_cast<float4 *>(a_vec_6) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner + 1)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner - 2]);
                    *reinterpret_cast<float4 *>(a_vec_7) =
                            *reinterpret_cast<const float4 *>(&a[((4*i_outer + i_inner)*m +
                                16*j_outer_outer + 2*j_outer_inner + j_inner + 1)*l + 128*k_vec_outer +
                                4*k_vec_inner - 2*i_inner - 2*j_inner + 2]);
                    #pragma unroll
                    for (int k_item = 0; k_item < 4; ++k_item) {
                        // insn
                        out_vec[k_item] =
                                (k_item >= 2 ? a_vec_1[k_item - 2] : k_item < 2 ? a_vec_0[k_item + 2] :
                                a[((4*i_outer + i_inner - 1)*m + 16*j_outer_outer + 2*j_outer_inner +
                                    j_inner)*l + 128*k_vec_outer + 4*k_vec_inner +
                                    k_item - 2*i_inner - 2*j_inner]) +
                                (k_item >= 2 ? a_vec_3[k_item - 2] : k_item < 2 ? a_vec_2[k_item + 2] :
                                a[((4*i_outer + i_inner + 1)*m + 16*j_outer_outer + 2*j_outer_inner +
                                    j_inner)*l + 128*k_vec_outer + 4*k_vec_inner +
                                    k_item - 2*i_inner - 2*j_inner]) +
                                (k_item >= 2 ? a_vec_5[k_item - 2] : k_item < 2 ? a_vec_4[k_item + 2] :
                                a[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner +
                                    j_inner - 1)*l + 128*k_vec_outer + 4*k_vec_inner +
                                    k_item - 2*i_inner - 2*j_inner]) +
                                (k_item >= 2 ? a_vec_7[k_item - 2] : k_item < 2 ? a_vec_6[k_item + 2] :
                                a[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner + j_inner +
                                    1)*l + 128*k_vec_outer + 4*k_vec_inner +
                                    k_item - 2*i_inner - 2*j_inner]) +
                                (k_item >= 1 ? a_vec[k_item - 1] :
                                a[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner +
                                    j_inner)*l + 128*k_vec_outer + 4*k_vec_inner +
                                    k_item - 2*i_inner - 2*j_inner - 1]) +
                                (k_item < 3 ? a_vec[k_item + 1] :
                                a[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner +
                                    j_inner)*l + 128*k_vec_outer + 4*k_vec_inner +
                                    k_item - 2*i_inner - 2*j_inner + 1]) - 6.0f*a_vec[k_item];
                    }
                    if (128*k_vec_outer + 4*k_vec_inner + 4 < 2*j_inner + 2*i_inner + l &&
                            2*j_inner + 2*i_inner < 128*k_vec_outer + 4*k_vec_inner) {
                        *reinterpret_cast<float4 *>(&out[((4*i_outer + i_inner)*m + 16*j_outer_outer +
                                    2*j_outer_inner + j_inner)*l + 128*k_vec_outer +
                                    4*k_vec_inner - 2*i_inner - 2*j_inner]) =
                                *reinterpret_cast<const float4 *>(out_vec);
                    }
                    // otherwise one element at a time, each under its guard: a branch would hold up what follows
                    #pragma unroll
                    for (int k_item = 0; k_item < 4; ++k_item) {
                        if (!(128*k_vec_outer + 4*k_vec_inner + 4 < 2*j_inner + 2*i_inner + l &&
                                2*j_inner + 2*i_inner < 128*k_vec_outer + 4*k_vec_inner) &&
                                128*k_vec_outer + 4*k_vec_inner + k_item + 2 <= 2*j_inner + 2*i_inner + l &&
                                2*j_inner + 2*i_inner < 128*k_vec_outer + 4*k_vec_inner + k_item) {
                            // insn
                            out[((4*i_outer + i_inner)*m + 16*j_outer_outer + 2*j_outer_inner + j_inner)*l +
                                        128*k_vec_outer + 4*k_vec_inner + k_item - 2*i_inner - 2*j_inner] =
                                    out_vec[k_item];
                        }
                    }
                }
            }
        }
    }
}
