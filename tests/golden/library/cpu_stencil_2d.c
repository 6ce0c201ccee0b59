#include <math.h>

void cpu_stencil_2d(const float *restrict a, float *restrict out, const long long m, const long long n)
{
    if (n < 3 || m < 3)
        return;
    #pragma omp parallel for if(1LL*(n - 2)*(m + 1) >= 32768)
    for (long long g0_ = 0; g0_ < n - 2; ++g0_) {
        const long long i = g0_ + 1;

        #pragma omp simd
        for (long long j = 1; j < m - 1; ++j) {
            // insn
            out[i*m + j] = a[(i - 1)*m + j] + a[(i + 1)*m + j] + a[i*m + j - 1] + a[i*m + j + 1] -
                    4.0f*a[i*m + j];
        }
    }
}
