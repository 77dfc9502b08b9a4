"""The numbers of CodeView for Python; constants.pxd has them."""
