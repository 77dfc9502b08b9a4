"""Files that answer for a build-id or a path, open."""

from __future__ import annotations

from whence._base.closing import Closing
from whence.locate.search import Search
from whence.locate.sources import Candidate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whence.binary import Binary
    from whence.objects.elf.segments import Segment
    from whence.objects.interface import ObjectFile


class OpenedFile(Closing):
    """A file that answers, open. `how` says in words which file it is and how it was found.

    `segments` place addresses of the file; None if only an archive is available that has none. `elf` is the ELF file
    that an archive was made of just now; it is closed with the binary.
    """

    __slots__ = ("binary", "build_id", "elf", "how", "path", "segments")

    def __init__(
        self, binary: Binary, segments: Sequence[Segment] | None, path: str, how: str, build_id: str = "",
        elf: ObjectFile | None = None,
    ) -> None:  # fmt: skip
        self.binary, self.segments, self.path, self.how = binary, segments, path, how
        self.build_id, self.elf = build_id, elf

    def __repr__(self) -> str:
        return f"<whence.locator.OpenedFile {self.how}, build-id {self.build_id or 'none'}>"

    @property
    def source_elf(self) -> ObjectFile | None:
        """The ELF file that answers, itself or by the archive that was made of it; None for a mere archive."""
        producers = self.binary.producers
        return self.elf if producers is None else producers.elf

    def close(self) -> None:
        """Close the binary and its files."""
        self.binary.close()
        if self.elf is not None:
            self.elf.close()


class AnswerSearch(Search):
    """A search for a file that names addresses. `opened` is the caller's to close."""

    opened: OpenedFile | None = None


class RemoteArchive(Candidate):
    """An archive that is not a file of this machine; `path` is its name for people."""

    __slots__ = ("_open_binary",)

    def __init__(
        self, path: str, how: str, build_id: str, open_binary: Callable[[bool | Callable[[str], str]], Binary]
    ) -> None:
        super().__init__(path, how, (build_id,), is_archive=True)
        self._open_binary = open_binary

    def open_binary(self, demangle: bool | Callable[[str], str]) -> Binary:
        """Open the archive. Raises OSError, LidiaError."""
        return self._open_binary(demangle)
