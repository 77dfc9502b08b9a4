"""How recordings of perf begin: all that is asked of most profiles, which are none."""

MAGIC = b"PERFILE2"  # as a little-endian machine writes it
MAGIC_BIG = MAGIC[::-1]
