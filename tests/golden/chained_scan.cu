// proven: order (15 dependences), in bounds, no read before a write, no races; barriers: 2, each needed

// a value that one block passes to another: 4 bytes of it in each word, below a flag that is set once they are there
template <typename T> struct flagged {
    using type = T;
    static constexpr int count = (sizeof(T) + 3) / 4;
    unsigned long long words[count];
};
template <typename T> __device__ __forceinline__ void store_with_flag(flagged<T> *to, typename flagged<T>::type value)
{
    unsigned int parts[flagged<T>::count] = {};
    memcpy(parts, &value, sizeof(T));
    for (int i = 0; i < flagged<T>::count; ++i)
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;"
                     :: "l"(&to->words[i]), "l"(1ull << 32 | parts[i]) : "memory");
}
template <typename T> __device__ __forceinline__ T wait_for(const flagged<T> *from)
{
    unsigned int parts[flagged<T>::count];
    for (int i = 0; i < flagged<T>::count; ++i) {
        unsigned long long word;
        do
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(&from->words[i]) : "memory");
        while (word >> 32 == 0);
        parts[i] = word;
    }
    T value;
    memcpy(&value, parts, sizeof(T));
    return value;
}
// the number of this block among those of the launch, in the order in which they start
__device__ __forceinline__ unsigned int take_ticket(unsigned int *started)
{
    __shared__ unsigned int number;
    if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
        number = atomicAdd(started, 1);
    __syncthreads();
    return number;
}

extern "C" __global__ void __launch_bounds__(64)
chained_scan(const float *__restrict__ x, float *__restrict__ y, flagged<float> *__restrict__ whole,
    unsigned int *__restrict__ chained_scan_started, const int n)
{
    const unsigned int block = take_ticket(chained_scan_started);
    const int b = block;
    const int k = threadIdx.x;
    const int i = threadIdx.x;
    float acc_a;
    float before;
    float acc_k;
    __shared__ float acc_k_shared[2];
    float acc_k_all;
    float acc_j;
    __shared__ float acc_j_shared[1];
    float acc_j_before;
    float acc_j_all;
    float acc_k_warp{};  // combined by shuffles in warps of 32
    float acc_j_warp{}, acc_j_warp_other;  // scanned by shuffles in warps of 32
    float acc_j_warp_1{}, acc_j_warp_1_other;
    float acc_j_warp_2{}, acc_j_warp_2_other;
    float acc_j_warp_3{}, acc_j_warp_3_other;
    float acc_j_warp_4{}, acc_j_warp_4_other;
    float acc_j_warp_5{};

    if (64*b + 64 <= n) {  // a full tile
        // insn.a.init
        acc_a = 0.0f;
        if (1 <= b) {
            const int a = b - 1;
            // insn.a.update
            acc_a += wait_for(&whole[a]);
        }
        // insn
        before = acc_a;
        // insn_0.k.init
        acc_k = 0.0f;
        // insn_0.k.update
        acc_k += x[64*b + k];
        // insn_0.k.store ... insn_0.k.step4: shuffles combine acc_k of 32 lanes; the first one gets the result
        acc_k_warp = acc_k;
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 16);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 8);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 4);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 2);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 1);
        if (k % 32 == 0) {
            // insn_0.k.put
            acc_k_shared[k / 32] = acc_k_warp;
        }
        // acc_k_shared: insn_0.k.put writes, insn_0.k.first reads
        // acc_k_shared: insn_0.k.put writes, insn_0.k.rest reads
        __syncthreads();
        // insn_0.k.first
        acc_k_all = acc_k_shared[0];
        // insn_0.k.rest
        acc_k_all += acc_k_shared[1];
        if ((int)threadIdx.x == 0) {
            // insn_0
            store_with_flag(&whole[b], before + acc_k_all);
        }
        // insn_1.j.init
        acc_j = 0.0f;
        // insn_1.j.update
        acc_j += x[64*b + i];
        // insn_1.j.store ... insn_1.j.step4: shuffles combine acc_j of each lane and those before it, among 32 lanes
        acc_j_warp = acc_j;
        acc_j_warp_1 = acc_j_warp;
        acc_j_warp_other = __shfl_up_sync(0xffffffff, acc_j_warp, 1);
        if (i % 32 != 0) {
            acc_j_warp_1 += acc_j_warp_other;
        }
        acc_j_warp_2 = acc_j_warp_1;
        acc_j_warp_1_other = __shfl_up_sync(0xffffffff, acc_j_warp_1, 2);
        if (2 <= i % 32) {
            acc_j_warp_2 += acc_j_warp_1_other;
        }
        acc_j_warp_3 = acc_j_warp_2;
        acc_j_warp_2_other = __shfl_up_sync(0xffffffff, acc_j_warp_2, 4);
        if (4 <= i % 32) {
            acc_j_warp_3 += acc_j_warp_2_other;
        }
        acc_j_warp_4 = acc_j_warp_3;
        acc_j_warp_3_other = __shfl_up_sync(0xffffffff, acc_j_warp_3, 8);
        if (8 <= i % 32) {
            acc_j_warp_4 += acc_j_warp_3_other;
        }
        acc_j_warp_5 = acc_j_warp_4;
        acc_j_warp_4_other = __shfl_up_sync(0xffffffff, acc_j_warp_4, 16);
        if (16 <= i % 32) {
            acc_j_warp_5 += acc_j_warp_4_other;
        }
        if (i == 31) {
            // insn_1.j.put
            acc_j_shared[i / 32] = acc_j_warp_5;
        }
        // insn_1.j.first
        acc_j_before = 0.0f;
        // acc_j_shared: insn_1.j.put writes, insn_1.j.rest reads
        __syncthreads();
        if (32 <= i) {
            // insn_1.j.rest
            acc_j_before += acc_j_shared[0];
        }
        // insn_1.j.result
        acc_j_all = acc_j_before + acc_j_warp_5;
        // insn_1
        y[64*b + i] = before + acc_j_all;
    } else {
        // insn.a.init
        acc_a = 0.0f;
        if (1 <= b) {
            const int a = b - 1;
            // insn.a.update
            acc_a += wait_for(&whole[a]);
        }
        // insn
        before = acc_a;
        // insn_0.k.init
        acc_k = 0.0f;
        if (64*b + k < n) {
            // insn_0.k.update
            acc_k += x[64*b + k];
        }
        // insn_0.k.store ... insn_0.k.step4: shuffles combine acc_k of 32 lanes; the first one gets the result
        acc_k_warp = acc_k;
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 16);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 8);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 4);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 2);
        acc_k_warp += __shfl_down_sync(0xffffffff, acc_k_warp, 1);
        if (k % 32 == 0) {
            // insn_0.k.put
            acc_k_shared[k / 32] = acc_k_warp;
        }
        // acc_k_shared: insn_0.k.put writes, insn_0.k.first reads
        // acc_k_shared: insn_0.k.put writes, insn_0.k.rest reads
        __syncthreads();
        // insn_0.k.first
        acc_k_all = acc_k_shared[0];
        // insn_0.k.rest
        acc_k_all += acc_k_shared[1];
        if ((int)threadIdx.x == 0) {
            // insn_0
            store_with_flag(&whole[b], before + acc_k_all);
        }
        // insn_1.j.init
        acc_j = 0.0f;
        if (64*b + i < n) {
            // insn_1.j.update
            acc_j += x[64*b + i];
        }
        // insn_1.j.store ... insn_1.j.step4: shuffles combine acc_j of each lane and those before it, among 32 lanes
        acc_j_warp = acc_j;
        acc_j_warp_1 = acc_j_warp;
        acc_j_warp_other = __shfl_up_sync(0xffffffff, acc_j_warp, 1);
        if (i % 32 != 0) {
            acc_j_warp_1 += acc_j_warp_other;
        }
        acc_j_warp_2 = acc_j_warp_1;
        acc_j_warp_1_other = __shfl_up_sync(0xffffffff, acc_j_warp_1, 2);
        if (2 <= i % 32) {
            acc_j_warp_2 += acc_j_warp_1_other;
        }
        acc_j_warp_3 = acc_j_warp_2;
        acc_j_warp_2_other = __shfl_up_sync(0xffffffff, acc_j_warp_2, 4);
        if (4 <= i % 32) {
            acc_j_warp_3 += acc_j_warp_2_other;
        }
        acc_j_warp_4 = acc_j_warp_3;
        acc_j_warp_3_other = __shfl_up_sync(0xffffffff, acc_j_warp_3, 8);
        if (8 <= i % 32) {
            acc_j_warp_4 += acc_j_warp_3_other;
        }
        acc_j_warp_5 = acc_j_warp_4;
        acc_j_warp_4_other = __shfl_up_sync(0xffffffff, acc_j_warp_4, 16);
        if (16 <= i % 32) {
            acc_j_warp_5 += acc_j_warp_4_other;
        }
        if (i == 31) {
            // insn_1.j.put
            acc_j_shared[i / 32] = acc_j_warp_5;
        }
        // insn_1.j.first
        acc_j_before = 0.0f;
        // acc_j_shared: insn_1.j.put writes, insn_1.j.rest reads
        __syncthreads();
        if (32 <= i) {
            // insn_1.j.rest
            acc_j_before += acc_j_shared[0];
        }
        // insn_1.j.result
        acc_j_all = acc_j_before + acc_j_warp_5;
        if (64*b + i < n) {
            // insn_1
            y[64*b + i] = before + acc_j_all;
        }
    }
}
