void launch_elementwise_operator(const float *__restrict__ d, float *__restrict__ r,
    const float *__restrict__ u, const int ne)
{
    if (1 <= ne)
        elementwise_operator<<<dim3((ne + 15) / 16, 1, 1), dim3(10, 16, 1)>>>(d, r, u, ne);
}
