// proven: order (no dependences), in bounds, no races

extern "C" __global__ void __launch_bounds__(256)
add(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_thread = threadIdx.x;

    if (1024*i_outer + 1024 <= n) {  // a full tile
        #pragma unroll
        for (int i_item = 0; i_item < 4; ++i_item) {
            // insn
            z[1024*i_outer + 256*i_item + i_thread] = x[1024*i_outer + 256*i_item + i_thread] +
                    y[1024*i_outer + 256*i_item + i_thread];
        }
    } else if (1024*i_outer + i_thread < n) {
        #pragma unroll
        for (int i_item = 0; i_item < 4; ++i_item) {
            if (1024*i_outer + 256*i_item + i_thread < n) {
                // insn
                z[1024*i_outer + 256*i_item + i_thread] = x[1024*i_outer + 256*i_item + i_thread] +
                        y[1024*i_outer + 256*i_item + i_thread];
            }
        }
    }
}
