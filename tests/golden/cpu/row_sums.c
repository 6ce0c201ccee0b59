#include <math.h>

void kernel(const float *restrict a, float *restrict y, const long long m, const long long n)
{
    #pragma omp parallel for if(1LL*n*(m + 1) >= 32768)
    for (long long g0_ = 0; g0_ < n; ++g0_) {
        const long long i = g0_;

        float acc_k;

        // insn.k.init
        acc_k = 0.0f;
        #pragma omp simd reduction(+: acc_k)
        for (long long k = 0; k < m; ++k) {
            // insn.k.update
            acc_k += a[i*m + k];
        }
        // insn
        y[i] = acc_k;
    }
}
