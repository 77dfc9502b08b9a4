"""The compiled hot loops of whence.profiles: one file per state machine or section of the standard."""
