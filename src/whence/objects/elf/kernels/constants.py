"""The numbers of ELF for Python; constants.pxd has them."""
