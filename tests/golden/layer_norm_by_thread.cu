// proven: order (12 dependences), in bounds, no read before a write, no races

__device__ __forceinline__ float power2_f32(float x)
{
    return x*x;
}

extern "C" __global__ void __launch_bounds__(32)
layer_norm(const float *__restrict__ x, float *__restrict__ y, const int m, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    float acc_k;
    float mean;
    float acc_k_0;
    float var;
    float scale;

    if (32*i_outer + 32 <= n) {  // a full tile
        // insn.k.init
        acc_k = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k += x[(32*i_outer + i_inner)*m + k];
        }
        // insn
        mean = acc_k / m;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += power2_f32(x[(32*i_outer + i_inner)*m + k] - mean);
        }
        // insn_0
        var = acc_k_0 / m;
        // insn_1
        scale = rsqrtf(var + 1e-5f);
        for (int j = 0; j < m; ++j) {
            // insn_2
            y[(32*i_outer + i_inner)*m + j] = (x[(32*i_outer + i_inner)*m + j] - mean)*scale;
        }
    } else if (32*i_outer + i_inner < n) {
        // insn.k.init
        acc_k = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn.k.update
            acc_k += x[(32*i_outer + i_inner)*m + k];
        }
        // insn
        mean = acc_k / m;
        // insn_0.k.init
        acc_k_0 = 0.0f;
        for (int k = 0; k < m; ++k) {
            // insn_0.k.update
            acc_k_0 += power2_f32(x[(32*i_outer + i_inner)*m + k] - mean);
        }
        // insn_0
        var = acc_k_0 / m;
        // insn_1
        scale = rsqrtf(var + 1e-5f);
        for (int j = 0; j < m; ++j) {
            // insn_2
            y[(32*i_outer + i_inner)*m + j] = (x[(32*i_outer + i_inner)*m + j] - mean)*scale;
        }
    }
}
