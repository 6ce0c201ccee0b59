#include <math.h>

void prefix_sum(float *restrict a, const float *restrict b, const int n)
{
    for (int i = 1; i < n; ++i) {
        // insn
        a[i] = a[i - 1] + b[i];
    }
}
