"""Processes of forged programs, and binaries that answer without being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.forge.elf import Section, Segment, Symbol, build_id_note, forge
from tests.forge.proc import Line
from whence._base.errors import ElfError
from whence._base.model import Frame, Frames
from whence.binary import Binary
from whence.locate.search import FileQuery
from whence.locator.answers import AnswerSearch, OpenedFile
from whence.locator.locator import Locator
from whence.objects.elf import segments
from whence.objects.interface import ObjectFile
from whence.symbolize import ProcessView, Symbolized, Symbolizer

ID, OTHER = "aa" * 20, "bb" * 20
CODE_VADDR = 0x401000


class Fake(Binary):
    """A binary that calls every even vaddr after its file and itself; odd ones have no name, 0x401ff0 breaks it."""

    build_id = ""
    memory = 0

    def __init__(self, path: str, build_id: str = "", memory: int = 10) -> None:
        self.path, self.build_id, self.memory = path, build_id, memory
        self.closed = False
        self.producers = None
        self.lookups = 0

    def lookup(self, vaddr: int, *, return_address: bool = False) -> Frames:
        assert not self.closed
        if vaddr == 0x401FF0:
            raise ElfError("unit", 1, "it is whole")
        if vaddr == 0x401FE0:
            raise RuntimeError("a bug")
        return () if vaddr & 1 else (Frame(f"{Path(self.path).name}@{vaddr:#x}"),)

    def lookup_many(self, vaddrs: Iterable[int], **_: bool) -> Any:
        self.lookups += 1
        return [self.lookup(vaddr) for vaddr in vaddrs]

    def check(self) -> None:
        pass

    def close(self) -> None:
        assert not self.closed, "closed once"
        self.closed = True


class FakeLocator(Locator):
    """Answers for each file with a fake binary; as a Locator does, it closes the mapped file that it does not use."""

    def __init__(self, memory: int = 10) -> None:
        super().__init__()
        self.opened: list[Fake] = []
        self.memory = memory
        self.build_ids: dict[str, str] = {}

    def search(
        self,
        query: FileQuery,
        *,
        own: ObjectFile | None = None,
        addresses: int = 1,
        places: Callable[[Sequence[segments.Segment]], bool] = lambda _: True,
        demangle: bool | Callable[[str], str] = False,
    ) -> AnswerSearch:
        path = own.path if own is not None else query.path
        if own is not None:
            own.close()
        if "broken" in path:
            raise ElfError("header", 5, "it is whole")
        if "bug" in path:
            raise ZeroDivisionError("a bug")
        fake = Fake(path, self.build_ids.get(path, ""), self.memory)
        self.opened.append(fake)
        return AnswerSearch(str(query), path=path, opened=OpenedFile(fake, None, path, path))


def program(path: Path, build_id: str = ID, offset: int = 0x1000, symbols: Sequence[Symbol] = ()) -> Path:
    """A program whose code is at CODE_VADDR and at file offset 0x1000: never the same number."""
    code = Section(".text", b"\x90" * 0x1000, vaddr=CODE_VADDR, flags=6)
    pad = Section(".pad", b"\0" * 0x2000)
    note = build_id_note(build_id) if build_id else Section(".nothing")
    loaded = [Segment(1, 5, file_offset=offset, vaddr=CODE_VADDR, file_size=0x1000, memory_size=0x1000, align=0x1000)]
    loaded += [Segment(4, 4, of=".note.gnu.build-id", align=4)] if build_id else []
    path.write_bytes(forge([note, code, pad], loaded, symbols=symbols or None))
    return path


def mapped(path: Path, start: int = 0x7000_0000) -> Line:
    return Line(start, start + 0x1000, str(path), 0x1000, of=path)


def only(symbolizer: Symbolizer, process: int | ProcessView, address: int) -> Symbolized:
    """The answer for one address."""
    return symbolizer.symbolize(process, [address])[0]
