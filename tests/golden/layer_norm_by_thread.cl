// proven: order (12 dependences), in bounds, no read before a write, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))
static inline float power2_f32(float x)
{
    return x*x;
}

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void layer_norm(__global const float *restrict x, __global float *restrict y, const int m, const int n)
{
    const int i_outer = gid(0);
    const int i_inner = lid(0);
    float acc_k;
    float mean;
    float acc_k_0;
    float var;
    float scale;

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn.k.init
        acc_k = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k += x[(32*i_outer + i_inner)*m + k];
        }
        // insn
        mean = acc_k / m;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += power2_f32(x[(32*i_outer + i_inner)*m + k] - mean);
        }
        // insn_0
        var = acc_k_0 / m;
        // insn_1
        scale = rsqrt(var + 1e-5f);
        for (int j = 0; j < m; ++j) {
            // insn_2
            y[(32*i_outer + i_inner)*m + j] = (x[(32*i_outer + i_inner)*m + j] - mean)*scale;
        }
    } else if (32*i_outer + i_inner < n) {
        // insn.k.init
        acc_k = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k += x[(32*i_outer + i_inner)*m + k];
        }
        // insn
        mean = acc_k / m;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += power2_f32(x[(32*i_outer + i_inner)*m + k] - mean);
        }
        // insn_0
        var = acc_k_0 / m;
        // insn_1
        scale = rsqrt(var + 1e-5f);
        for (int j = 0; j < m; ++j) {
            // insn_2
            y[(32*i_outer + i_inner)*m + j] = (x[(32*i_outer + i_inner)*m + j] - mean)*scale;
        }
    }
}
