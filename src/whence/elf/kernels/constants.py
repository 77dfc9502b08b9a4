"""What relocations do, as numbers, for Python; constants.pxd has them."""
