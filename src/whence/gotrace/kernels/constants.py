"""The numbers of the trace format, and the codes that kernels of this room share; constants.pxd has them."""
