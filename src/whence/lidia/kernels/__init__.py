"""The compiled hot loops of whence.lidia: one file per state machine or section of the standard."""
