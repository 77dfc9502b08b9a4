"""The numbers of the trace format, and what the kernels of this room tell each other; constants.pxd has them."""
