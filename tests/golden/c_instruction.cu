// proven: in bounds, no read before a write, no races
// assumed: make_kernel: the C code of 'norm' accesses its operands only, and writes every element of its
//   assignees (declared as a CInstruction)

extern "C" __global__ void __launch_bounds__(4)
norms(double *__restrict__ b, const double *a, const double *x, double *__restrict__ y,
    double *__restrict__ z, const int m, const int n)
{
    const int i_outer = blockIdx.x;
    const int i_inner = threadIdx.x;
    int norm_m;
    double norm_scale;

    if (4*i_outer + 4 <= n) {  // a full tile
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
    } else if (4*i_outer + i_inner < n) {
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
