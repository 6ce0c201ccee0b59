#include <algorithm>

void launch_kernel(const double *__restrict__ x, const double *__restrict__ w, double *__restrict__ y,
    const int m, const int n)
{
    if (1 <= n && 1 <= m)
        kernel<<<dim3((m + 3) / 4, 1, 1), dim3(4, std::max(1, n), 1)>>>(x, w, y, m, n);
}
