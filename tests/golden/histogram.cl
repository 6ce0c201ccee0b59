// proven: order (6 dependences), no read before a write, no races; barriers: 2, each needed
// undecided: whether 'add' stays inside 'h_buf': a subscript is read from memory.

#define gid(AXIS) ((uint)get_group_id(AXIS))
#define lid(AXIS) ((uint)get_local_id(AXIS))
static inline float atomic_add_float_global(volatile __global float *to, const float value)
{
    volatile __global uint *word = (volatile __global uint *)to;
    uint last, seen = *word;
    float old;
    do {
        last = seen;
        old = as_float(last);
        seen = atomic_cmpxchg(word, last, as_uint((float)(old + value)));
    } while (seen != last);
    return old;
}
static inline float atomic_add_float_local(volatile __local float *to, const float value)
{
    volatile __local uint *word = (volatile __local uint *)to;
    uint last, seen = *word;
    float old;
    do {
        last = seen;
        old = as_float(last);
        seen = atomic_cmpxchg(word, last, as_uint((float)(old + value)));
    } while (seen != last);
    return old;
}
static inline int floor_div_i32(int a, int b)
{
    const int q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

__kernel __attribute__((reqd_work_group_size(50, 1, 1)))
void histogram_0(__global float *restrict h)
{
    const int j = lid(0);

    // clear
    h[j] = 1.0f;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void histogram_1(__global float *restrict h, __global const uchar *b, __global const float *w, const int n)
{
    const int i_outer = gid(0);
    const int i_thread = lid(0);
    __local float h_buf[50];

    const int h_init_0 = lid(0);
    if (h_init_0 < 50) {
        // init_h
        h_buf[h_init_0] = 0.0f;
    }
    // h_buf: init_h writes, add reads
    // h_buf: init_h writes, store_h reads
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    for (int i_item = 0; i_item < min(4, -4*i_outer + floor_div_i32(-i_thread + n - 1, 64) + 1); ++i_item) {
        // add
        atomic_add_float_local(&h_buf[(int)b[256*i_outer + 64*i_item + i_thread]],
                w[256*i_outer + 64*i_item + i_thread]);
    }
    // h_buf: add writes, store_h reads
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    const int h_store_0 = lid(0);
    if (h_store_0 < 50) {
        // store_h
        atomic_add_float_global(&h[h_store_0], h_buf[h_store_0]);
    }
}
