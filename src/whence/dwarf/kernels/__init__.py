"""The compiled hot loops of whence.dwarf: one file per state machine or section of the standard."""
