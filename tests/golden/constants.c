#include <math.h>

void weighted(const float *restrict x, double *restrict y, long long *restrict z, const int n)
{
    static const float t[2][3] = {{1.5f, 2.0f, 3.0f}, {0.1f, 1e-30f, -7.0f}};
    static const double c = 0.5;
    static const _Bool flag = 1;
    static const long long large[4] = {(-2147483647 - 1), 2147483647, 1099511627776LL,
            (-9223372036854775807LL - 1)};

    float acc_j;

    for (int i = 0; i < n; ++i) {
        // insn.j.init
        acc_j = 0.0f;
        for (int j = 0; j < 3; ++j) {
            // insn.j.update
            acc_j += t[i % 2][j]*x[i];
        }
        // insn
        y[i] = acc_j + c;
        // insn_0
        z[i] = flag ? large[i % 4] : 0LL;
    }
}
