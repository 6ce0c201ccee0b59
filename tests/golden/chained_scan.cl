// 'chained_scan' needs inter-block flags, which OpenCL does not have: it does not promise that a work-group runs while another one waits for it.
//   hint: leave out add_block_flags: a dependence across blocks then ends a launch
