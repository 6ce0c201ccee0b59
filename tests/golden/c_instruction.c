#include <math.h>

void norms(double *restrict b, const double *restrict a, const double *restrict x, double *restrict y,
    double *restrict z, const int m, const int n)
{
    #pragma omp parallel for if(16LL*((n + 3) / 4) >= 32768)
    for (int g0_ = 0; g0_ < (n + 3) / 4; ++g0_) {
        const int i_outer = g0_;

        if (4*i_outer + 4 <= n) {  // a full tile
            for (int l0_ = 0; l0_ < 4; ++l0_) {
                const int i_inner = l0_;
                int norm_m;
                double norm_scale;

                // norm_m
                norm_m = m;
                // norm_scale
                norm_scale = 2.0*x[4*i_outer + i_inner];
                // norm_unit
                do {  // the user's C code 'norm'
                    const double *norm_row = &a[(4*i_outer + i_inner)*m];
                    const int norm_row_stride = 1;
                    double *norm_total = &y[4*i_outer + i_inner];
                    double *norm_unit = &b[(4*i_outer + i_inner)*m];
                    const int norm_unit_stride = 1;
                    double sum = 0;  /* of absolute values, and of "1 // 1" */
                    for (int c = 0; c < norm_m; ++c)
                        sum += fabs(norm_row[c*norm_row_stride]);
                    (*norm_total) = sum;
                    for (int c = 0; c < norm_m; ++c)
                        norm_unit[c*norm_unit_stride] = norm_scale*norm_row[c*norm_row_stride]/sum;
                } while (0);
                // insn
                z[4*i_outer + i_inner] = b[(4*i_outer + i_inner)*m] + y[4*i_outer + i_inner];
            }
        } else {
            for (int l0_ = 0; l0_ < 4; ++l0_) {
                const int i_inner = l0_;
                int norm_m;
                double norm_scale;

                if (4*i_outer + i_inner < n) {
                    // norm_m
                    norm_m = m;
                    // norm_scale
                    norm_scale = 2.0*x[4*i_outer + i_inner];
                    // norm_unit
                    do {  // the user's C code 'norm'
                        const double *norm_row = &a[(4*i_outer + i_inner)*m];
                        const int norm_row_stride = 1;
                        double *norm_total = &y[4*i_outer + i_inner];
                        double *norm_unit = &b[(4*i_outer + i_inner)*m];
                        const int norm_unit_stride = 1;
                        double sum = 0;  /* of absolute values, and of "1 // 1" */
                        for (int c = 0; c < norm_m; ++c)
                            sum += fabs(norm_row[c*norm_row_stride]);
                        (*norm_total) = sum;
                        for (int c = 0; c < norm_m; ++c)
                            norm_unit[c*norm_unit_stride] = norm_scale*norm_row[c*norm_row_stride]/sum;
                    } while (0);
                    // insn
                    z[4*i_outer + i_inner] = b[(4*i_outer + i_inner)*m] + y[4*i_outer + i_inner];
                }
            }
        }
    }
}
