"""The numbers of protocol buffers' wire format, and of faults, for Python; fields.pxd has them."""
