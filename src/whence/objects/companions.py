"""The files that an object file needs besides itself.

These are its debug file, dwz's supplementary file, split units, and the object files of a debug map. Parsers open no
files. They ask a `complete` callable for a Companion, and get the open file or None.
"""

from __future__ import annotations

from enum import StrEnum

from whence._base.records import Record
from whence.objects.interface import ObjectFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.objects.parts import LinkedObject

    Complete = Callable[["Companion"], ObjectFile | None]


class CompanionKind(StrEnum):
    """The role of a companion for its file; the text is for people."""

    DEBUG_FILE = "debug file"
    ALT_FILE = "supplementary file"
    PACKAGE = "package of split units"
    SPLIT_UNIT = "split unit"
    LINKED_OBJECT = "object file"


class Companion(Record, frozen=True):
    """A file that completes `elf`.

    `comp_dir` and `name` are those in the skeleton of a split unit, `linked` that of an object file with debug info.
    """

    kind: CompanionKind
    elf: ObjectFile
    comp_dir: str = ""
    name: str = ""
    linked: LinkedObject | None = None
