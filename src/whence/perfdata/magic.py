"""The first bytes of a perf recording, in a module of its own: it is all that reading other profiles needs."""

MAGIC = b"PERFILE2"  # as a little-endian machine writes it
MAGIC_BIG = MAGIC[::-1]
