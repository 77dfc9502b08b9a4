"""Limits of the memory of a profile: TIMES the stored (compressed) bytes, plus ALLOWANCE.

Gzip compresses equal bytes a thousandfold, and formats store stacks and strings once but use them often, so the size of
a profile in memory is not limited by its file. Readers and writers charge objects to a budget before they make them.
"""

from __future__ import annotations

from whence._base.budget import Budget
from whence._base.errors import ProfileError

TIMES = 256
ALLOWANCE = 128 << 20
STEP = 8  # of a repeated walk
NO_BOUND = 1 << 60  # of a profile that was not read from a file

# Size of an object in bytes, with its entries in lists and tables
FRAME = 200
MAPPING = 2 << 10  # with the search for its file
TYPE = 400  # a sample type and its columns
LOCATION = 400  # with tables to find it by text
SAMPLE = 500  # of a text format, before equal samples are merged
STRING = 100  # plus its characters
LABEL = 400
LABELS = 64  # a sample's tuple
ENTRY = 16  # in a list or a column
ID = 128  # in tables to find it
INNER_PROFILE = 32 << 10  # of OTLP, without its samples
JSON_CHARACTER = 12  # of a text that is decoded as one
JSON_OBJECT, JSON_LIST, JSON_VALUE, JSON_TEXT = 240, 64, 48, 60


def reading(stored: int) -> Budget:
    """Return the budget for reading a profile of `stored` bytes."""
    return Budget("file", "a profile's parts in memory", stored, times=TIMES, allowance=ALLOWANCE, error=ProfileError)


def stored(budget: Budget) -> int:
    """Return the stored bytes of a reader's budget."""
    return (budget.most - ALLOWANCE) // TIMES


def writing(stored: int, what: str) -> Budget:
    """Return the budget for making `what` of a profile of `stored` bytes (NO_BOUND: not read from a file)."""
    return Budget("output", what, stored, times=TIMES, allowance=ALLOWANCE, error=ProfileError)
