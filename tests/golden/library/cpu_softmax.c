#include <math.h>
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__
#pragma omp declare simd notinbranch
float expf(float);
#endif
static inline float max_f32(float a, float b)
{
    return a > b || b != b ? a : b;
}

void cpu_softmax(const float *restrict x, float *restrict y, const long long m, const long long n)
{
    #pragma omp parallel for if(4LL*n*(m + 1) >= 32768)
    for (long long g0_ = 0; g0_ < n; ++g0_) {
        const long long i = g0_;

        float acc_j;
        float top;
        float acc_j_0;
        float scale;

        // insn.j.init
        acc_j = -INFINITY;
        #pragma omp simd reduction(max: acc_j)
        for (long long j = 0; j < m; ++j) {
            // insn.j.update
            acc_j = max_f32(acc_j, x[i*m + j]);
        }
        // insn
        top = acc_j;
        #pragma omp simd
        for (long long j = 0; j < m; ++j) {
            // insn_0
            y[i*m + j] = expf(x[i*m + j] - top);
        }
        // insn_1.j.init
        acc_j_0 = 0.0f;
        #pragma omp simd reduction(+: acc_j_0)
        for (long long j = 0; j < m; ++j) {
            // insn_1.j.update
            acc_j_0 += y[i*m + j];
        }
        // insn_1
        scale = 1.0f / acc_j_0;
        #pragma omp simd
        for (long long j = 0; j < m; ++j) {
            // insn_2
            y[i*m + j] = y[i*m + j]*scale;
        }
    }
}
