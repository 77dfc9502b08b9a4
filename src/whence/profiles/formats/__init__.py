"""Formats of profiles, each a reader, a writer or both; `registry` finds the format of a file."""
