// proven: order (4 dependences), in bounds, no read before a write, no races

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void matmul(__global const float *restrict a, __global const float *restrict b, __global float *restrict c,
    const int l, const int m, const int n)
{
    float acc_k;

    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < m; ++j) {
            // insn.k.init
            acc_k = 0.0f;
            for (int k = 0; k < l; ++k) {
                // insn.k.update
                acc_k += a[i*l + k]*b[k*m + j];
            }
            // insn
            c[i*m + j] = acc_k;
        }
    }
}
