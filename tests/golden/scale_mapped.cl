// proven: order (no dependences), in bounds, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void scale(__global const float *restrict a, __global float *restrict out, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);

    if (128*i_outer + 128 <= n) {  // a full tile
        // insn
        out[128*i_outer + i_inner] = 2.0f*a[128*i_outer + i_inner];
    } else if (128*i_outer + i_inner < n) {
        // insn
        out[128*i_outer + i_inner] = 2.0f*a[128*i_outer + i_inner];
    }
}
