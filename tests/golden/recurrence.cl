// proven: order (1 dependence), in bounds, no races

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void prefix_sum(__global float *restrict a, __global const float *b, const int n)
{
    for (int i = 1; i < n; ++i) {
        // insn
        a[i] = a[i - 1] + b[i];
    }
}
