void launch_lu(float *__restrict__ a, const int n)
{
    for (int k = 0; k < n - 1; ++k) {
        lu_0<<<dim3((n + 127) / 128 - (k + 1) / 128, 1, 1), dim3(128, 1, 1)>>>(a, n, k);
        lu_1<<<dim3((n + 31) / 32 - (k + 1) / 32, (n + 7) / 8 - (k + 1) / 8, 1), dim3(32, 8, 1)>>>(a, n, k);
    }
}
