// proven: order (no dependences), in bounds, no races

extern "C" __global__ void __launch_bounds__(128)
scale(const float *__restrict__ a, float *__restrict__ out, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;

    if (128*i_outer + 128 <= n) {  // a full tile
        // insn
        out[128*i_outer + i_inner] = 2.0f*a[128*i_outer + i_inner];
    } else if (128*i_outer + i_inner < n) {
        // insn
        out[128*i_outer + i_inner] = 2.0f*a[128*i_outer + i_inner];
    }
}
