#include <math.h>

void lu_0(float *restrict a, const int n, const int k)
{
    #pragma omp parallel for if(128LL*((n + 127) / 128 - (k + 1) / 128) >= 32768)
    for (int g0_ = 0; g0_ < (n + 127) / 128 - (k + 1) / 128; ++g0_) {
        const int r_outer = g0_ + (k + 1) / 128;

        if (128*r_outer + 128 <= n && k < 128*r_outer) {  // a full tile
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int r_inner = l0_;
                // scale
                a[(128*r_outer + r_inner)*n + k] = a[(128*r_outer + r_inner)*n + k] / a[k*n + k];
            }
        } else {
            for (int l0_ = 0; l0_ < 128; ++l0_) {
                const int r_inner = l0_;
                if (128*r_outer + r_inner < n && k < 128*r_outer + r_inner) {
                    // scale
                    a[(128*r_outer + r_inner)*n + k] = a[(128*r_outer + r_inner)*n + k] / a[k*n + k];
                }
            }
        }
    }
}

void lu_1(float *restrict a, const int n, const int k)
{
    #pragma omp parallel for collapse(2) if(256LL*((n + 7) / 8 - (k + 1) / 8)*((n + 31) / 32 - (k + 1) / 32) >= 32768)
    for (int g1_ = 0; g1_ < (n + 7) / 8 - (k + 1) / 8; ++g1_) {
        for (int g0_ = 0; g0_ < (n + 31) / 32 - (k + 1) / 32; ++g0_) {
            const int i_outer = g1_ + (k + 1) / 8;
            const int j_outer = g0_ + (k + 1) / 32;

            if (32*j_outer + 32 <= n && k < 32*j_outer && 8*i_outer + 8 <= n &&
                    k < 8*i_outer) {  // a full tile
                for (int l1_ = 0; l1_ < 8; ++l1_) {
                    for (int l0_ = 0; l0_ < 32; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        // update
                        a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] =
                                a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] -
                                a[(8*i_outer + i_inner)*n + k]*a[k*n + 32*j_outer + j_inner];
                    }
                }
            } else {
                for (int l1_ = 0; l1_ < 8; ++l1_) {
                    for (int l0_ = 0; l0_ < 32; ++l0_) {
                        const int i_inner = l1_;
                        const int j_inner = l0_;
                        if (32*j_outer + j_inner < n && k < 32*j_outer + j_inner &&
                                8*i_outer + i_inner < n && k < 8*i_outer + i_inner) {
                            // update
                            a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] =
                                    a[(8*i_outer + i_inner)*n + 32*j_outer + j_inner] -
                                    a[(8*i_outer + i_inner)*n + k]*a[k*n + 32*j_outer + j_inner];
                        }
                    }
                }
            }
        }
    }
}
