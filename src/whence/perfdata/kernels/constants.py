"""The numbers of perf.data, and codes that kernels and the modules beside them share; constants.pxd has them."""
