void launch_jacobi(float *__restrict__ u, float *__restrict__ v, const int n, const int steps)
{
    jacobi<<<dim3(1, 1, 1), dim3(1, 1, 1)>>>(u, v, n, steps);
}
