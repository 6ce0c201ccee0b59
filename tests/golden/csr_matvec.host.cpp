void launch_csr_matvec(const int *__restrict__ col, const int *__restrict__ rowptr,
    const float *__restrict__ val, const float *__restrict__ x, float *__restrict__ y, const int n)
{
    if (1 <= n)
        csr_matvec<<<dim3((n + 63) / 64, 1, 1), dim3(64, 1, 1)>>>(col, rowptr, val, x, y, n);
}
