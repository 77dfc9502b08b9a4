"""The compiled hot loops of whence.gotrace: one file per state machine or section of the standard."""
