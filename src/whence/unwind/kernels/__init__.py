"""The compiled hot loops of whence.unwind: one file per state machine or section of the standard."""
