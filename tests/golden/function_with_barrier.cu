// proven: order (1 dependence), in bounds, no read before a write, no races; barriers: 2, each needed

static __device__ void f(float *b, const float *a, float t[8], const int i)
{
    // f_insn
    t[i] = a[i];
    // t: f_insn writes, f_insn_0 reads
    __syncwarp();
    // f_insn_0
    b[i] = t[-i + 7];
}

extern "C" __global__ void __launch_bounds__(8)
kernel(const float *__restrict__ x, float *__restrict__ y, const int m)
{
    const int i = threadIdx.x;
    __shared__ float t[8];

    for (int r = 0; r < m; ++r) {
        // y[r, :] = f(x[r, :])
        f(&y[8*r], &x[8*r], t, i);
        // t: f_insn_0 reads, f_insn overwrites
        __syncwarp();
    }
}
