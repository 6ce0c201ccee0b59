void launch_axpy(const float *__restrict__ x, float *__restrict__ y, const float a, const int n)
{
    if (1 <= n)
        axpy<<<dim3((n + 127) / 128, 1, 1), dim3(32, 1, 1)>>>(x, y, a, n);
}
