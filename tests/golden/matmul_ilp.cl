// proven: order (4 dependences), in bounds, no read before a write, no races

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))

__kernel __attribute__((reqd_work_group_size(16, 4, 1)))
void matmul(__global const float *restrict a, __global const float *restrict b, __global float *restrict c,
    const int l, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_inner_outer = lid(1);
    const int j_inner_inner = lid(0);
    float acc_k[4][4];

    if (64*j_outer + 64 <= m && 16*i_outer + 16 <= n) {  // a full tile
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                // insn.k.init
                acc_k[i_inner_inner][j_inner_outer] = 0.0f;
            }
        }
        for (int k = 0; k < l; ++k) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                    // insn.k.update
                    acc_k[i_inner_inner][j_inner_outer] +=
                            a[(16*i_outer + 4*i_inner_outer + i_inner_inner)*l + k]*
                            b[k*m + 64*j_outer + 16*j_inner_outer + j_inner_inner];
                }
            }
        }
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                // insn
                c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer + 16*j_inner_outer +
                            j_inner_inner] = acc_k[i_inner_inner][j_inner_outer];
            }
        }
    } else if (64*j_outer + j_inner_inner < m && 16*i_outer + 4*i_inner_outer < n) {
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                if (64*j_outer + 16*j_inner_outer + j_inner_inner < m &&
                        16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                    // insn.k.init
                    acc_k[i_inner_inner][j_inner_outer] = 0.0f;
                }
            }
        }
        for (int k = 0; k < l; ++k) {
            #pragma unroll
            for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
                #pragma unroll
                for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                    if (64*j_outer + 16*j_inner_outer + j_inner_inner < m &&
                            16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                        // insn.k.update
                        acc_k[i_inner_inner][j_inner_outer] +=
                                a[(16*i_outer + 4*i_inner_outer + i_inner_inner)*l + k]*
                                b[k*m + 64*j_outer + 16*j_inner_outer + j_inner_inner];
                    }
                }
            }
        }
        #pragma unroll
        for (int i_inner_inner = 0; i_inner_inner < 4; ++i_inner_inner) {
            #pragma unroll
            for (int j_inner_outer = 0; j_inner_outer < 4; ++j_inner_outer) {
                if (64*j_outer + 16*j_inner_outer + j_inner_inner < m &&
                        16*i_outer + 4*i_inner_outer + i_inner_inner < n) {
                    // insn
                    c[(16*i_outer + 4*i_inner_outer + i_inner_inner)*m + 64*j_outer + 16*j_inner_outer +
                                j_inner_inner] = acc_k[i_inner_inner][j_inner_outer];
                }
            }
        }
    }
}
