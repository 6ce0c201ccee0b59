// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, rows without gaps; other calls run a text without them

extern "C" __global__ void __launch_bounds__(3)
anywhere(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    const int i = blockIdx.y;
    const int q_outer = blockIdx.x;
    const int q_inner = threadIdx.x;

    if (3*q_outer + q_inner <= 3) {
        alignas(16) float a_vec[4];
        alignas(16) float out_vec[4];
        if (i < n - 1 || 12*q_outer + 4*q_inner - 1*i % 4 + 3 < 13) {
            *reinterpret_cast<float4 *>(a_vec) =
                    *reinterpret_cast<const float4 *>(&a[13*i + 12*q_outer + 4*q_inner - 1*i % 4]);
        } else {
            #pragma unroll
            for (int v = 0; v < 4; ++v) {
                if (i % 4 <= 12*q_outer + 4*q_inner + v && 12*q_outer + 4*q_inner + v <= i % 4 + 12) {
                    // insn
                    a_vec[v] = a[13*i + 12*q_outer + 4*q_inner + v - 1*i % 4];
                }
            }
        }
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (i % 4 <= 12*q_outer + 4*q_inner + v && 12*q_outer + 4*q_inner + v <= i % 4 + 12) {
                // insn
                out_vec[v] = 2.0f*a_vec[v];
            }
        }
        if (i % 4 <= 12*q_outer + 4*q_inner && 12*q_outer + 4*q_inner + 3 <= i % 4 + 12) {
            *reinterpret_cast<float4 *>(&out[13*i + 12*q_outer + 4*q_inner - 1*i % 4]) =
                    *reinterpret_cast<const float4 *>(out_vec);
        }
        // else those lanes that are in, by predicates: a branch would hold up what follows
        #pragma unroll
        for (int v = 0; v < 4; ++v) {
            if (!(i % 4 <= 12*q_outer + 4*q_inner && 12*q_outer + 4*q_inner + 3 <= i % 4 + 12) &&
                    i % 4 <= 12*q_outer + 4*q_inner + v && 12*q_outer + 4*q_inner + v <= i % 4 + 12) {
                // insn
                out[13*i + 12*q_outer + 4*q_inner + v - 1*i % 4] = out_vec[v];
            }
        }
    }
}
