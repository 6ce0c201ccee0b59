// proven: order (9 dependences), in bounds, no read before a write, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void conditionals(__global const float *restrict x, __global float *restrict y, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);
    float t;
    uchar cond;

    if (1 <= i_outer && 32*i_outer + 32 <= n) {  // a full tile
        // insn
        t = x[32*i_outer + i_inner];
        // insn_cond
        cond = t > 0.5f;
        if (cond) {
            // insn_0
            y[32*i_outer + i_inner] = sqrt(t);
        } else {
            // insn_2
            y[32*i_outer + i_inner] = (32*i_outer + i_inner) % 3 == 0 ? t*t :
                    (float)((32*i_outer + i_inner) / 2);
        }
    } else {
        if (32*i_outer + i_inner < n) {
            // insn
            t = x[32*i_outer + i_inner];
            // insn_cond
            cond = t > 0.5f;
            if (cond) {
                // insn_0
                y[32*i_outer + i_inner] = sqrt(t);
            }
        }
        if (i_inner <= 9 && i_inner < n && i_outer == 0) {
            if (!cond) {
                // insn_1
                y[32*i_outer + i_inner] = -1.0f;
            }
        }
        if (10 <= 32*i_outer + i_inner && 32*i_outer + i_inner < n) {
            if (!cond) {
                // insn_2
                y[32*i_outer + i_inner] = (32*i_outer + i_inner) % 3 == 0 ? t*t :
                        (float)((32*i_outer + i_inner) / 2);
            }
        }
    }
}
