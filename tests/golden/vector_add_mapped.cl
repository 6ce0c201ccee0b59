// proven: order (no dependences), in bounds, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void vector_add(__global const float *restrict x, __global const float *restrict y,
    __global float *restrict z, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);

    if (128*i_outer + 128 <= n) {  // a full tile
        // insn
        z[128*i_outer + i_inner] = x[128*i_outer + i_inner] + y[128*i_outer + i_inner];
    } else if (128*i_outer + i_inner < n) {
        // insn
        z[128*i_outer + i_inner] = x[128*i_outer + i_inner] + y[128*i_outer + i_inner];
    }
}
