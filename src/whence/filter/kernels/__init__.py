"""The compiled hot loops of whence.ranges: one file per state machine or section of the standard."""
