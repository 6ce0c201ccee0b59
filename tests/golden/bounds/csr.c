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

void kernel(const int *restrict col, const int *restrict rowptr, const float *restrict val,
    const float *restrict x, float *restrict y, const int n, const long long val_extent_0,
    const long long col_extent_0, const long long x_extent_0, long long *restrict violation_)
{
    #pragma omp parallel for if(136LL*((n + 1) / 2) >= 32768)
    for (int g0_ = 0; g0_ < (n + 1) / 2; ++g0_) {
        const int i_outer = g0_;

        if (2*i_outer + 2 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 2; ++l0_) {
                const int i_inner = l0_;
                int first;
                int last;
                float acc_j;

                // insn
                first = rowptr[2*i_outer + i_inner];
                // insn_0
                last = rowptr[2*i_outer + i_inner + 1];
                // S.j.init
                acc_j = 0.0f;
                for (int j = first; j < last; ++j) {
                    // S.j.update
                    if (!inside_(j, val_extent_0)) {
                        report_(violation_, g0_, 0, 4, (const long long[]){j, i_outer, i_inner, j});
                        goto end;
                    }
                    if (!inside_(j, col_extent_0)) {
                        report_(violation_, g0_, 1, 4, (const long long[]){j, i_outer, i_inner, j});
                        goto end;
                    }
                    if (!inside_(col[j], x_extent_0)) {
                        report_(violation_, g0_, 2, 4, (const long long[]){col[j], i_outer, i_inner, j});
                        goto end;
                    }
                    acc_j += val[j]*x[col[j]];
                }
                // S
                y[2*i_outer + i_inner] = acc_j;
            }
        } else {
            for (int l0_ = 0; l0_ < 2; ++l0_) {
                const int i_inner = l0_;
                int first;
                int last;
                float acc_j;

                if (2*i_outer + i_inner < n) {
                    // insn
                    first = rowptr[2*i_outer + i_inner];
                    // insn_0
                    last = rowptr[2*i_outer + i_inner + 1];
                    // S.j.init
                    acc_j = 0.0f;
                    for (int j = first; j < last; ++j) {
                        // S.j.update
                        if (!inside_(j, val_extent_0)) {
                            report_(violation_, g0_, 3, 4, (const long long[]){j, i_outer, i_inner, j});
                            goto end;
                        }
                        if (!inside_(j, col_extent_0)) {
                            report_(violation_, g0_, 4, 4, (const long long[]){j, i_outer, i_inner, j});
                            goto end;
                        }
                        if (!inside_(col[j], x_extent_0)) {
                            report_(violation_, g0_, 5, 4, (const long long[]){col[j], i_outer, i_inner, j});
                            goto end;
                        }
                        acc_j += val[j]*x[col[j]];
                    }
                    // S
                    y[2*i_outer + i_inner] = acc_j;
                }
            }
        }
        end: ;
    }
}
