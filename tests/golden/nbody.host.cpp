void launch_nbody(float *__restrict__ phi, const float *__restrict__ q, const float *__restrict__ x,
    const float *__restrict__ y, const float *__restrict__ z, const int n)
{
    if (1 <= n)
        nbody<<<dim3((n + 63) / 64, 1, 1), dim3(64, 1, 1)>>>(phi, q, x, y, z, n);
}
