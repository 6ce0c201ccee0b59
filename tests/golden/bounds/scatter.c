#include <math.h>
static inline _Bool inside_(long long subscript, long long extent)
{
    return 0 <= subscript && subscript < extent;
}
// keeps an access outside of an array unless one of an earlier block is known: its number, subscripts and inames
static void report_(long long *violation, long long block, int access, int count, const long long *numbers)
{
    #pragma omp critical (report_)
    if (violation[0] == 0 || block + 1 < violation[0]) {
        violation[0] = block + 1;
        violation[1] = access;
        for (int i = 0; i < count; ++i)
            violation[2 + i] = numbers[i];
    }
}

void kernel(float *restrict z, const float *restrict x, const long long *restrict at, const int k,
    const int m, const int n, const long long z_extent_0, long long *restrict violation_)
{
    if (n < 1 || m < 1)
        return;
    #pragma omp parallel for if(4LL*((n + 3) / 4)*(m + 1) >= 32768)
    for (int g0_ = 0; g0_ < (n + 3) / 4; ++g0_) {
        const int i_outer = g0_;

        if (4*i_outer + 4 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 4; ++l0_) {
                const int i_inner = l0_;
                for (int j = 0; j < m; ++j) {
                    // S
                    if (!inside_(2*at[4*i_outer + i_inner] + 1, z_extent_0)) {
                        report_(violation_, g0_, 0, 5, (const long long[]){2*at[4*i_outer + i_inner] + 1, j,
                                i_outer, i_inner, j});
                        goto end;
                    }
                    z[(2*(int)at[4*i_outer + i_inner] + 1)*m + j] = x[(4*i_outer + i_inner)*m + j];
                }
            }
        } else {
            for (int l0_ = 0; l0_ < 4; ++l0_) {
                const int i_inner = l0_;
                if (4*i_outer + i_inner < n) {
                    for (int j = 0; j < m; ++j) {
                        // S
                        if (!inside_(2*at[4*i_outer + i_inner] + 1, z_extent_0)) {
                            report_(violation_, g0_, 1, 5,
                                    (const long long[]){2*at[4*i_outer + i_inner] + 1, j, i_outer, i_inner,
                                    j});
                            goto end;
                        }
                        z[(2*(int)at[4*i_outer + i_inner] + 1)*m + j] = x[(4*i_outer + i_inner)*m + j];
                    }
                }
            }
        }
        end: ;
    }
}
