// proven: order (no dependences), in bounds, no races

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void vector_add(__global const float *restrict x, __global const float *restrict y,
    __global float *restrict z, const int n)
{
    for (int i = 0; i < n; ++i) {
        // insn
        z[i] = x[i] + y[i];
    }
}
