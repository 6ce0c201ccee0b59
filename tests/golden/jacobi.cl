// proven: order (10 dependences), in bounds, no races

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void jacobi(__global float *restrict u, __global float *restrict v, const int n, const int steps)
{
    for (int t = 0; t < steps; ++t) {
        for (int i = 1; i < n - 1; ++i) {
            // insn
            v[i] = (u[i - 1] + u[i] + u[i + 1]) / 3.0f;
        }
        for (int j = 1; j < n - 1; ++j) {
            // insn_0
            u[j] = v[j];
        }
    }
}
