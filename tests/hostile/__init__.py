"""Inputs made to cost more than they are worth, with the time and memory they may take.

Every reader's time and memory are at most a constant times the stored bytes plus an allowance. test_files.py is a table
of hostile files, which inputs/ makes; the other modules test what is not a single file. Each test runs the reader in
`bounded`, which fails where the bound is broken. `interrupted` sends Ctrl-C to a command in the middle of its work.
`python -m tests.hostile` runs all of them and prints the table: input, stored bytes, seconds, megabytes, bound.
"""

from tests.hostile.bounds import Outcome, bounded, interrupted, processor_time

__all__ = ["Outcome", "bounded", "interrupted", "processor_time"]
