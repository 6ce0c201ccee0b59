// proven: order (2 dependences), in bounds, no read before a write, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void two_launches_0(__global const float *restrict x, __global float *restrict t, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);

    if (64*i_outer + 64 <= n) {  // a full tile
        // insn
        t[64*i_outer + i_inner] = 2.0f*x[64*i_outer + i_inner];
    } else if (64*i_outer + i_inner < n) {
        // insn
        t[64*i_outer + i_inner] = 2.0f*x[64*i_outer + i_inner];
    }
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void two_launches_1(__global float *restrict y, __global const float *restrict t, const int n)
{
    const int j_outer = gid(0);
    const int j_inner = lid(0);

    if (1 <= j_outer && 64*j_outer + 64 < n) {  // a full tile
        // insn_0
        y[64*j_outer + j_inner] = t[64*j_outer + j_inner - 1] + t[64*j_outer + j_inner + 1];
    } else if (64*j_outer + j_inner + 2 <= n && 1 <= 64*j_outer + j_inner) {
        // insn_0
        y[64*j_outer + j_inner] = t[64*j_outer + j_inner - 1] + t[64*j_outer + j_inner + 1];
    }
}
