"""The compiled hot loops of whence.columns: Arrow's C data interface, and the answers of a namer."""
