"""The compiled hot loops of whence: one file per state machine or section of the standard."""
