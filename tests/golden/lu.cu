// proven: order (10 dependences), in bounds, no races

extern "C" __global__ void __launch_bounds__(128)
lu_0(float *__restrict__ a, const int n, const int k)
{
    const int r_outer = blockIdx.x + (k + 1) / 128;
    const int r_inner = threadIdx.x;

    if (128*r_outer + 128 <= n && k < 128*r_outer) {  // a full tile
        // scale
        a[(128*r_outer + r_inner)*n + k] = a[(128*r_outer + r_inner)*n + k] / a[k*n + k];
    } else if (128*r_outer + r_inner < n && k < 128*r_outer + r_inner) {
        // scale
        a[(128*r_outer + r_inner)*n + k] = a[(128*r_outer + r_inner)*n + k] / a[k*n + k];
    }
}

extern "C" __global__ void __launch_bounds__(256)
lu_1(float *__restrict__ a, const int n, const int k)
{
    const int i_outer = blockIdx.y + (k + 1) / 8;
    const int j_outer = blockIdx.x + (k + 1) / 32;
    const int i_inner = threadIdx.y;
    const int j_inner = threadIdx.x;

    if (32*j_outer + 32 <= n && k < 32*j_outer && 8*i_outer + 8 <= n && k < 8*i_outer) {  // a full tile
        // update
        a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] =
                a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] -
                a[(8*i_outer + i_inner)*n + k]*a[k*n + 32*j_outer + j_inner];
    } else if (32*j_outer + j_inner < n && k < 32*j_outer + j_inner && 8*i_outer + i_inner < n &&
            k < 8*i_outer + i_inner) {
        // update
        a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] =
                a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] -
                a[(8*i_outer + i_inner)*n + k]*a[k*n + 32*j_outer + j_inner];
    }
}
