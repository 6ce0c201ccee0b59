#include <math.h>

void jacobi(float *restrict u, float *restrict v, const int n, const int steps)
{
    for (int t = 0; t < steps; ++t) {
        for (int i = 1; i < n - 1; ++i) {
            // insn
            v[i] = (u[i - 1] + u[i] + u[i + 1]) / 3.0f;
        }
        for (int j = 1; j < n - 1; ++j) {
            // insn_0
            u[j] = v[j];
        }
    }
}
