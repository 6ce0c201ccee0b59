#include <math.h>

void vector_add(const float *restrict x, const float *restrict y, float *restrict z, const int n)
{
    for (int i = 0; i < n; ++i) {
        // insn
        z[i] = x[i] + y[i];
    }
}
