// proven: order (no dependences), in bounds, no races

extern "C" __global__ void __launch_bounds__(128)
vector_add(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;

    if (128*i_outer + 128 <= n) {  // a full tile
        // insn
        z[128*i_outer + i_inner] = x[128*i_outer + i_inner] + y[128*i_outer + i_inner];
    } else if (128*i_outer + i_inner < n) {
        // insn
        z[128*i_outer + i_inner] = x[128*i_outer + i_inner] + y[128*i_outer + i_inner];
    }
}
