"""The binaries that answer for a profile's mappings: found and opened by a Locator, each once.

The kernel's files have names and places of their own (whence.samples.kernel).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.errors import WhenceError
from whence._base.reasons import GIVE_KERNEL, Missing, Reason
from whence._base.records import Record, field
from whence.lidia.chains import ChainTable
from whence.locate.search import Tried, Wanted
from whence.locator.answers import Opened
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.objects.elf.segments import Segment
from whence.procmap.vdso import own_vdso
from whence.profiles.symbol_lists import SymbolLists
from whence.samples.addresses import can_translate, vaddrs
from whence.samples.kernel import Placing, is_kernel, placing
from whence.samples.model import Mapping
from whence.symbolize.internal_error import reason_of

if TYPE_CHECKING:
    from whence.binary import Binary

VDSO = "[vdso]"  # how recorders call it


class KnownChains(Record):
    """What a file answered: chains, and which of them each vaddr has that was asked for."""

    table: ChainTable = field(default_factory=ChainTable)
    chain: dict[int, int] = field(default_factory=dict)


Known = dict[Callable[[str], str] | None, KnownChains]


class Placed(Record):
    """A file that answers for a mapping, and how the mapping's addresses become its vaddrs."""

    binary: Binary
    segments: Sequence[Segment] | None
    how: str  # in words: which file, and how it was found
    build_id: str = ""  # of the file
    placing: Placing | None = None  # the kernel's files have rules of their own
    known: Known | None = None  # chains that the file gave, by how names were made readable; None: they are not kept

    def vaddrs(self, mapping: Mapping, addresses: array[int]) -> array[int]:
        """Where a mapping's addresses lie in the file; NOWHERE for those that are in no code of it."""
        return self.placing(mapping, addresses) if self.placing else vaddrs(self.segments, mapping, addresses)


class MappingSearch(Record):
    """What became of the search for one mapping's file."""

    mapping: Mapping
    opened: Placed | None = None
    missing: Missing | None = None
    tried: list[Tried] = field(default_factory=list)


class Binaries(Closing):
    """The files of a profile's mappings, found by `locator` and opened once each.

    `symbol_lists` has the names that are in no file. With `remember` what a file answered is kept for the next profile:
    profiles of one program ask for the same places. With `once` there is one profile, and a file is closed as soon as
    it was asked for all of its mappings. With `local` false nothing of this machine answers: no symbol lists, no vDSO.
    A context manager: closing closes the files.
    """

    def __init__(
        self, locator: Locator | None = None, *, symbol_lists: SymbolLists | None = None, remember: bool = False,
        once: bool = False, local: bool = True,
    ) -> None:  # fmt: skip
        self.remembers, self.once, self._local = remember, once, local
        self.system_names: dict[str, str] = {}  # of all profiles named, where files' answers are kept
        self.locator = locator or Locator()
        self.symbol_lists = symbol_lists or SymbolLists(local=local)
        self.symbol_lists.folders = self.locator.dirs if local else ()
        self._searches: dict[tuple[str, str], MappingSearch] = {}
        self._open: list[Opened] = []

    def __repr__(self) -> str:
        return f"<profiles.Binaries: {len(self._open)} open>"

    def close(self) -> None:
        for opened in self._open:
            opened.close()
        self._open.clear()
        self._searches.clear()

    def trim(self, memory: int, files: int) -> None:
        """Close the files that were asked least recently, until the others are at most so many and take so many bytes.

        Searches that found nothing are forgotten with them: a file that is asked for again is looked for again.
        """
        held = sum(one.opened.binary.memory for one in self._searches.values() if one.opened is not None)
        for key, search in list(self._searches.items()):
            if len(self._searches) <= files and held <= memory:
                break
            del self._searches[key]
            if search.opened is not None:
                held -= search.opened.binary.memory
                self._close(search.opened)

    def done(self, mapping: Mapping) -> None:
        """A profile asks for no more of a mapping's file: where there is one profile, it is closed."""
        found = self._searches.pop((mapping.path, mapping.build_id), None) if self.once else None
        if found is not None and found.opened is not None:
            self._close(found.opened)

    def _close(self, placed: Placed) -> None:
        opened = next(one for one in self._open if one.binary is placed.binary)
        self._open.remove(opened)
        opened.close()

    @property
    def searches(self) -> list[MappingSearch]:
        """Every search made that is not forgotten, the last one last."""
        return list(self._searches.values())

    def search(self, mapping: Mapping, addresses: int = 1) -> MappingSearch:
        """The file of a mapping, for so many addresses; the same search is made once."""
        key = mapping.path, mapping.build_id
        found = self._searches.pop(key, None)
        if found is not None:
            self._searches[key] = found  # the one that was asked last stands last
        else:
            found = self._searches[key] = MappingSearch(mapping)
            try:
                self._search(found, addresses)
            except Exception as error:  # costs this mapping its names, not the others theirs
                found.missing = Missing(*reason_of(error, f"looking for the file of {mapping.path}"))
        return found

    def _own_vdso(self, mapping: Mapping) -> ElfFile | None:
        """This machine's vDSO, if it is the one that was mapped."""
        with suppress(OSError, WhenceError):
            elf = ElfFile.from_bytes(own_vdso(), VDSO)
            if elf.build_id == mapping.build_id:
                return elf
        return None

    def _search(self, found: MappingSearch, addresses: int) -> None:
        mapping = found.mapping
        own = self._own_vdso(mapping) if self._local and mapping.path == VDSO else None
        search = self.locator.search(
            Wanted(mapping.build_id, mapping.path),
            own=own,
            addresses=addresses,
            places=lambda segments: can_translate(segments, mapping),
        )
        found.tried, found.missing, opened = search.tried, search.missing, search.opened
        if opened is None:
            if is_kernel(mapping) and (found.missing is None or found.missing.reason is not Reason.BROKEN_FILE):
                found.missing = Missing(Reason.NO_FILE, mapping.path, GIVE_KERNEL)
            return
        self._open.append(opened)
        found.opened = Placed(opened.binary, opened.segments, opened.how, opened.build_id)
        found.opened.known = {} if self.remembers else None
        if is_kernel(mapping) and mapping.path != VDSO:
            found.opened.placing = placing(opened.source_elf, opened.segments, self.symbol_lists.text_address)
