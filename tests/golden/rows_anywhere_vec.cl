// proven: order (no dependences), in bounds, no races
// vector accesses: a, out at multiples of 16 bytes, rows without gaps; other calls run a text without them

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(2, 1, 1)))
void anywhere(__global const float *restrict a, __global float *restrict out, const int n)
{
    const int i = gid(0);
    const int q_inner = lid(0);

    #pragma unroll
    for (int q_outer = 0; q_outer < 4; ++q_outer) {
        if (q_outer < 3 || 2*q_outer + q_inner <= 6) {
            float a_vec[4] __attribute__((aligned(16)));
            float out_vec[4] __attribute__((aligned(16)));
            if (q_outer < 3 || i < n - 1 || 8*q_outer + 4*q_inner - 1*i % 4 + 3 < 25) {
                *(float4 *)a_vec = *(__global const float4 *)&a[25*i + 8*q_outer + 4*q_inner - 1*i % 4];
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
                *(__global float4 *)&out[25*i + 8*q_outer + 4*q_inner - 1*i % 4] = *(const float4 *)out_vec;
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
