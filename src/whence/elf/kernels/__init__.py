"""The compiled hot loops of whence.elf: one file per state machine or section of the standard."""
