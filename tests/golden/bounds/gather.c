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

void kernel(const int *restrict at, const float *restrict x, float *restrict y, const int n,
    const long long x_extent_0, long long *restrict violation_)
{
    for (int i = 0; i < n; ++i) {
        // S
        if (!inside_(at[i], x_extent_0)) {
            report_(violation_, 0, 0, 2, (const long long[]){at[i], i});
            goto end;
        }
        y[i] = x[at[i]];
    }
    end: ;
}
