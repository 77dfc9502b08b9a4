"""The numbers of perf.data, and what the kernels of this room tell the modules beside them; constants.pxd has them."""
