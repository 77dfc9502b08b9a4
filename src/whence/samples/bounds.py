"""How much memory a profile may take: TIMES the bytes that are stored (packed ones as they are), plus ALLOWANCE.

Gzip packs equal bytes a thousandfold, stacks and strings are given once and used often: what comes out has no bound in
what is stored. Readers and writers charge what they are about to make to a budget, by these sizes of objects.
"""

from __future__ import annotations

from whence._base.budget import Budget
from whence._base.errors import ProfileError

TIMES = 256
ALLOWANCE = 128 << 20
STEP = 8  # what a step of a walk that is taken again and again is charged
NO_BOUND = 1 << 60  # of a profile that was made, not read

# What an object takes, in bytes, with its place in lists and tables
FRAME = 200
MAPPING = 2 << 10  # with the search for its file
TYPE = 400  # a sample type and its columns
LOCATION = 400  # with the tables that find it by its text
SAMPLE = 500  # one of a text, until equal ones are added up
STRING = 100  # beside its characters
LABEL = 400
LABELS = 64  # a sample's tuple
ENTRY = 16  # in a list or a column
ID = 128  # in the tables that find it
INNER_PROFILE = 32 << 10  # one of OTLP's: what reading it costs beside its samples
JSON_CHARACTER = 12  # of a text that is decoded at once
JSON_OBJECT, JSON_LIST, JSON_VALUE, JSON_TEXT = 240, 64, 48, 60


def reading(stored: int) -> Budget:
    """For reading a profile of so many stored bytes."""
    return Budget("file", "a profile's parts in memory", stored, times=TIMES, allowance=ALLOWANCE, error=ProfileError)


def stored(budget: Budget) -> int:
    """The stored bytes that a reader's budget is of."""
    return (budget.most - ALLOWANCE) // TIMES


def writing(stored: int, what: str) -> Budget:
    """For what is made of a profile that was read from so many bytes (NO_BOUND: was not read)."""
    return Budget("output", what, stored, times=TIMES, allowance=ALLOWANCE, error=ProfileError)
