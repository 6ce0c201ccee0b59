// proven: order (6 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))
static inline float from_f16(ushort x)
{
    const uchar2 bytes = as_uchar2(x);
    return vload_half(0, (const __private half *)&bytes);
}
static inline ushort to_f16(float x)
{
    uchar2 bytes;
    vstore_half_rte(x, 0, (__private half *)&bytes);
    return as_ushort(bytes);
}

__kernel __attribute__((reqd_work_group_size(16, 16, 1)))
void matmul_half(__global const ushort *restrict a, __global const ushort *restrict b,
    __global ushort *restrict c, const int l, const int m, const int n)
{
    const int i_outer = gid(1);
    const int j_outer = gid(0);
    const int i_inner = lid(1);
    const int j_inner = lid(0);
    float acc_k;
    __local ushort a_fetch[16][16];
    __local ushort b_fetch[16][16];

    if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
        // insn.k.init
        acc_k = 0.0f;
    }
    for (int k_outer = 0; k_outer < (l + 15) / 16; ++k_outer) {
        if (16*i_outer + 16 <= n && 16*k_outer + 16 <= l) {  // a full tile
            const int a_dim_0 = lid(1);
            const int a_dim_1 = lid(0);
            // a_fetch_rule
            a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
        } else {
            const int a_dim_0 = lid(1);
            const int a_dim_1 = lid(0);
            if (16*i_outer + a_dim_0 < n && 16*k_outer + a_dim_1 < l) {
                // a_fetch_rule
                a_fetch[a_dim_0][a_dim_1] = a[(16*i_outer + a_dim_0)*l + 16*k_outer + a_dim_1];
            }
        }
        if (16*j_outer + 16 <= m && 16*k_outer + 16 <= l) {  // a full tile
            const int b_dim_0 = lid(1);
            const int b_dim_1 = lid(0);
            // b_fetch_rule
            b_fetch[b_dim_0][b_dim_1] = b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
        } else {
            const int b_dim_0 = lid(1);
            const int b_dim_1 = lid(0);
            if (16*j_outer + b_dim_1 < m && 16*k_outer + b_dim_0 < l) {
                // b_fetch_rule
                b_fetch[b_dim_0][b_dim_1] = b[(16*k_outer + b_dim_0)*m + 16*j_outer + b_dim_1];
            }
        }
        // a_fetch: a_fetch_rule writes, insn.k.update reads
        // b_fetch: b_fetch_rule writes, insn.k.update reads
        barrier(CLK_LOCAL_MEM_FENCE);
        if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
            for (int k_inner = 0; k_inner < min(16, l - 16*k_outer); ++k_inner) {
                // insn.k.update
                acc_k += from_f16(a_fetch[i_inner][k_inner])*from_f16(b_fetch[k_inner][j_inner]);
            }
        }
        // a_fetch: insn.k.update reads, a_fetch_rule overwrites
        // b_fetch: insn.k.update reads, b_fetch_rule overwrites
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (16*j_outer + j_inner < m && 16*i_outer + i_inner < n) {
        // insn
        c[(16*i_outer + i_inner)*m + 16*j_outer + j_inner] = to_f16(acc_k);
    }
}
