"""Searches for files: the wanted identity, the candidates tried, the result, or what is missing."""

from __future__ import annotations

from enum import Enum, StrEnum

from whence._base.errors import Mismatch
from whence._base.records import Record, field
from whence.locate.identity import key
from whence.objects.ids import WindowsModule
from whence.objects.interface import ObjectFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.reasons import Missing


class FileKind(StrEnum):
    """Kinds of files, by the words of debuginfod URLs and of the names of archives."""

    ARCHIVE = "lidia"
    DEBUGINFO = "debuginfo"
    EXECUTABLE = "executable"
    GSYM = "gsym"  # only in stores, as Breakpad's
    BREAKPAD = "sym"


ALL_KINDS = (FileKind.ARCHIVE, FileKind.DEBUGINFO, FileKind.EXECUTABLE)


class Outcome(Enum):
    """The result for a candidate. `code` is for programs, `sentence` for people.

    >>> Outcome.ABSENT.code, Outcome.ABSENT.sentence
    ('absent', 'the file does not exist')
    """

    TAKEN = "the file is used"
    ABSENT = "the file does not exist"
    MISMATCH = "the file has another build-id or CRC"
    BROKEN = "the file is damaged or unreadable"
    EMPTY = "the file has no debug information"
    REPLACED = "the file at the recorded path has another build-id"
    UNVERIFIED = "there is no build-id or CRC to compare"

    @property
    def code(self) -> str:
        return self.name.lower()

    @property
    def sentence(self) -> str:
        return str(self.value)


class Tried(Record, frozen=True):
    """A candidate: its path, how it was found ("build-id", "debug link", ...), the outcome and details.

    `path` is "" for a place without files, such as a server.
    """

    path: str
    how: str
    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        name = f"{self.path} ({self.how})" if self.path else self.how
        return f"{name}: {self.detail or self.outcome.sentence}"

    def as_json(self) -> dict[str, str]:
        return {"path": self.path, "how": self.how, "outcome": self.outcome.code, "detail": self.detail}


class FileQuery(Record, frozen=True):
    """The identity of a file: its build-id, the path it was mapped from, and the acceptable kinds.

    Without `local` the path on this machine is not used. `addresses`: number of addresses that will be looked up; 0 if
    unknown. `module`: what symbol servers have a program of Windows by.
    """

    build_id: str = ""
    path: str = ""
    kinds: tuple[FileKind, ...] = ALL_KINDS
    local: bool = True
    addresses: int = 0
    module: WindowsModule | None = None

    @property
    def key(self) -> str:
        """The build-id in file names; "" if it cannot be one."""
        return key(self.build_id)

    def __str__(self) -> str:
        identity = f"build-id {self.build_id}" if self.build_id else "no build-id to look for"
        return f"{self.path or 'its path is not known'}, {identity}"


class Search(Record):
    """The result of a search: the file and how it was found, or what was tried and is missing.

    `wanted` says in words what was searched for. `elf` is an open file that completes another; the caller closes it.
    """

    wanted: str
    elf: ObjectFile | None = None
    path: str = ""
    how: str = ""
    kind: FileKind | None = None
    build_id: str = ""
    tried: list[Tried] = field(default_factory=list)
    missing: Missing | None = None

    def __bool__(self) -> bool:
        return self.elf is not None or bool(self.path)

    def __repr__(self) -> str:
        result = f"{self.how} {self.path}" if self else f"not found, {len(self.tried)} tried"
        return f"<whence.locate.Search for {self.wanted}: {result}>"

    @property
    def mismatches(self) -> list[Tried]:
        """Existing files that belong to another binary: worth a message, as a person may have put them there."""
        return [tried for tried in self.tried if tried.outcome is Outcome.MISMATCH]

    def note(self, path: str, how: str, outcome: Outcome, detail: str = "") -> None:
        """Note the outcome of a candidate."""
        self.tried.append(Tried(path, how, outcome, detail))

    def require(self) -> ObjectFile:
        """Return the file. Raises Mismatch if a wrong one was found, else FileNotFoundError with all that was tried."""
        if self.elf is not None:
            return self.elf
        if self.mismatches:
            raise Mismatch("; ".join(map(str, self.mismatches)))
        raise FileNotFoundError(2, f"no {self.wanted} ({'; '.join(map(str, self.tried)) or 'nothing names one'})")
