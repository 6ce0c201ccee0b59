// proven: order (10 dependences), in bounds, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(128, 1, 1)))
void lu_0(__global float *restrict a, const int n, const int k)
{
    const int r_outer = gid(0) + (k + 1) / 128;
    const int r_inner = lid(0);

    if (128*r_outer + 128 <= n && k < 128*r_outer) {  // a full tile
        // scale
        a[(128*r_outer + r_inner)*n + k] = a[(128*r_outer + r_inner)*n + k] / a[k*n + k];
    } else if (128*r_outer + r_inner < n && k < 128*r_outer + r_inner) {
        // scale
        a[(128*r_outer + r_inner)*n + k] = a[(128*r_outer + r_inner)*n + k] / a[k*n + k];
    }
}

__kernel __attribute__((reqd_work_group_size(32, 8, 1)))
void lu_1(__global float *restrict a, const int n, const int k)
{
    const int i_outer = gid(1) + (k + 1) / 8;
    const int j_outer = gid(0) + (k + 1) / 32;
    const int i_inner = lid(1);
    const int j_inner = lid(0);

    if (32*j_outer + 32 <= n && k < 32*j_outer && 8*i_outer + 8 <= n && k < 8*i_outer) {  // a full tile
        // update
        a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] =
                a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] -
                a[(8*i_outer + i_inner)*n + k]*a[k*n + 32*j_outer + j_inner];
    } else if (32*j_outer + j_inner < n && k < 32*j_outer + j_inner && 8*i_outer + i_inner < n &&
            k < 8*i_outer + i_inner) {
        // update
        a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] =
                a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] -
                a[(8*i_outer + i_inner)*n + k]*a[k*n + 32*j_outer + j_inner];
    }
}
