"""The numbers of Go's function table for Python; constants.pxd has them."""
