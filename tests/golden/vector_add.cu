// proven: order (no dependences), in bounds, no races

extern "C" __global__ void __launch_bounds__(1)
vector_add(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, const int n)
{
    for (int i = 0; i < n; ++i) {
        // insn
        z[i] = x[i] + y[i];
    }
}
