"""The compiled hot loops of whence.profiles.perfdata: one file per state machine or section of the standard."""
