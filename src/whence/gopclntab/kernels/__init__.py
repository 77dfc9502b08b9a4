"""The compiled hot loops of whence.gopclntab: one file per state machine or section of the standard."""
