void launch_vector_add(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z,
    const int n)
{
    if (1 <= n)
        vector_add<<<dim3((n + 127) / 128, 1, 1), dim3(128, 1, 1)>>>(x, y, z, n);
}
