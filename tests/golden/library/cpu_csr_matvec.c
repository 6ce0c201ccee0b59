#include <math.h>

void cpu_csr_matvec(const int *restrict col, const int *restrict rowptr, const float *restrict val,
    const float *restrict x, float *restrict y, const int n)
{
    #pragma omp parallel for if(68LL*n >= 32768)
    for (int g0_ = 0; g0_ < n; ++g0_) {
        const int i = g0_;

        int first;
        int last;
        float acc_k;

        // insn
        first = rowptr[i];
        // insn_0
        last = rowptr[i + 1];
        // insn_1.k.init
        acc_k = 0.0f;
        for (int k = first; k < last; ++k) {
            // insn_1.k.update
            acc_k += val[k]*x[col[k]];
        }
        // insn_1
        y[i] = acc_k;
    }
}
