"""The numbers of call frame information for Python; constants.pxd has them."""
