void launch_conditionals(const float *__restrict__ x, float *__restrict__ y, const int n)
{
    if (1 <= n)
        conditionals<<<dim3((n + 31) / 32, 1, 1), dim3(32, 1, 1)>>>(x, y, n);
}
