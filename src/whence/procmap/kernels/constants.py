"""The permissions of a mapping for Python; constants.pxd has them."""
