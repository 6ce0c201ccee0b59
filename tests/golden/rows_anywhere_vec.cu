// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, rows without gaps; other calls run a text without them

extern "C" __global__ void __launch_bounds__(2)
anywhere(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    const int i = blockIdx.x;
    const int q_inner = threadIdx.x;

    #pragma unroll
    for (int q_outer = 0; q_outer < 4; ++q_outer) {
        if (q_outer < 3 || 2*q_outer + q_inner <= 6) {
            alignas(16) float a_vec[4];
            alignas(16) float out_vec[4];
            if (q_outer < 3 || i < n - 1 || 8*q_outer + 4*q_inner - 1*i % 4 + 3 < 25) {
                *reinterpret_cast<float4 *>(a_vec) =
                        *reinterpret_cast<const float4 *>(&a[25*i + 8*q_outer + 4*q_inner - 1*i % 4]);
            } else {
                #pragma unroll
                for (int v = 0; v < 4; ++v) {
                    if ((0 < q_outer || i % 4 <= 8*q_outer + 4*q_inner + v) &&
                            (q_outer < 3 || 8*q_outer + 4*q_inner + v <= i % 4 + 24)) {
                        // insn
                        a_vec[v] = a[25*i + 8*q_outer + 4*q_inner + v - 1*i % 4];
                    }
                }
            }
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if ((0 < q_outer || i % 4 <= 8*q_outer + 4*q_inner + v) &&
                        (q_outer < 3 || 8*q_outer + 4*q_inner + v <= i % 4 + 24)) {
                    // insn
                    out_vec[v] = 2.0f*a_vec[v];
                }
            }
            if ((0 < q_outer || i % 4 <= 8*q_outer + 4*q_inner) &&
                    (q_outer < 3 || 8*q_outer + 4*q_inner + 3 <= i % 4 + 24)) {
                *reinterpret_cast<float4 *>(&out[25*i + 8*q_outer + 4*q_inner - 1*i % 4]) =
                        *reinterpret_cast<const float4 *>(out_vec);
            }
            // otherwise one element at a time, each under its guard: a branch would hold up what follows
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (!((0 < q_outer || i % 4 <= 8*q_outer + 4*q_inner) &&
                        (q_outer < 3 || 8*q_outer + 4*q_inner + 3 <= i % 4 + 24)) &&
                        (0 < q_outer || i % 4 <= 8*q_outer + 4*q_inner + v) &&
                        (q_outer < 3 || 8*q_outer + 4*q_inner + v <= i % 4 + 24)) {
                    // insn
                    out[25*i + 8*q_outer + 4*q_inner + v - 1*i % 4] = out_vec[v];
                }
            }
        }
    }
}
