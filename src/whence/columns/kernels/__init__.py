"""The compiled hot loops of whence.columns: Arrow's C data interface, texts by number, and the answers of a namer."""
