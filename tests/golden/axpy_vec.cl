// proven: order (no dependences), in bounds, no races
// vector accesses: x, y at multiples of 16 bytes, row by row; other calls run a text without them

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void axpy(__global const float *x, __global float *restrict y, const float a, const int n)
{
    const int i_outer_outer = gid(0);
    const int i_outer_inner = lid(0);

    if (128*i_outer_outer + 128 <= n) {  // a full tile
        float x_vec[4] __attribute__((aligned(16)));
        float y_vec[4] __attribute__((aligned(16)));
        *(float4 *)x_vec = *(__global const float4 *)&x[128*i_outer_outer + 4*i_outer_inner];
        *(float4 *)y_vec = *(__global const float4 *)&y[128*i_outer_outer + 4*i_outer_inner];
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            // insn
            y_vec[i_inner] = a*x_vec[i_inner] + y_vec[i_inner];
        }
        *(__global float4 *)&y[128*i_outer_outer + 4*i_outer_inner] = *(const float4 *)y_vec;
    } else if (128*i_outer_outer + 4*i_outer_inner < n) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            if (128*i_outer_outer + 4*i_outer_inner + i_inner < n) {
                // insn
                y[128*i_outer_outer + 4*i_outer_inner + i_inner] =
                        a*x[128*i_outer_outer + 4*i_outer_inner + i_inner] +
                        y[128*i_outer_outer + 4*i_outer_inner + i_inner];
            }
        }
    }
}
