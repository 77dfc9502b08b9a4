"""The numbers of the DWARF standards for Python; constants.pxd has them."""
