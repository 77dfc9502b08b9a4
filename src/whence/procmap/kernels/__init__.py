"""The compiled hot loops of whence.procmap: one file per state machine or section of the standard."""
