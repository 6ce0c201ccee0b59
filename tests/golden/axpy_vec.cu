// proven: order (no dependences), in bounds, no races
// vector accesses: x, y at multiples of 16 bytes, row by row; other calls run a text without them

extern "C" __global__ void __launch_bounds__(32)
axpy(const float *x, float *__restrict__ y, const float a, const int n)
{
    const int i_outer_outer = blockIdx.x;
    const int i_outer_inner = threadIdx.x;

    if (128*i_outer_outer + 128 <= n) {  // a full tile
        alignas(16) float x_vec[4];
        alignas(16) float y_vec[4];
        *reinterpret_cast<float4 *>(x_vec) =
                *reinterpret_cast<const float4 *>(&x[128*i_outer_outer + 4*i_outer_inner]);
        *reinterpret_cast<float4 *>(y_vec) =
                *reinterpret_cast<const float4 *>(&y[128*i_outer_outer + 4*i_outer_inner]);
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            // insn
            y_vec[i_inner] = a*x_vec[i_inner] + y_vec[i_inner];
        }
        *reinterpret_cast<float4 *>(&y[128*i_outer_outer + 4*i_outer_inner]) =
                *reinterpret_cast<const float4 *>(y_vec);
    } else if (128*i_outer_outer + 4*i_outer_inner < n) {
        #pragma unroll
        for (int i_inner = 0; i_inner < 4; ++i_inner) {
            if (128*i_outer_outer + 4*i_outer_inner + i_inner < n) {
                // insn
                y[128*i_outer_outer + 4*i_outer_inner + i_inner] =
                        a*x[128*i_outer_outer + 4*i_outer_inner + i_inner] +
                        y[128*i_outer_outer + 4*i_outer_inner + i_inner];
            }
        }
    }
}
