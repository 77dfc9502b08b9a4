"""The compiled hot loops of whence.profiles.flamegraph: one file per state machine or section of the standard."""
