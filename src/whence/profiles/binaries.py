"""The files of a profile's mappings, found and opened by a Locator, each once.

Files of the kernel have their own names and load addresses (whence.samples.kernel).
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
from whence.locate.search import FileQuery, Tried
from whence.locator.answers import OpenedFile
from whence.locator.coerce import locator_from
from whence.objects.elf import ElfFile
from whence.objects.elf.segments import Segment
from whence.procmap.vdso import own_vdso
from whence.profiles.symbol_lists import SymbolLists
from whence.samples.addresses import can_translate, vaddrs
from whence.samples.kernel import Placing, is_kernel, placing
from whence.samples.model import Mapping
from whence.symbolize.internal_error import reason_of
from whence.unwind.cfi import CallFrames, function_start

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.locator.coerce import Places

VDSO = "[vdso]"  # the name that recorders use


class CachedChains(Record):
    """Chains that a file has returned, and the number of each vaddr's chain."""

    table: ChainTable = field(default_factory=ChainTable)
    chain: dict[int, int] = field(default_factory=dict)


class OpenedMapping(Record):
    """The open file of a mapping, and how the mapping's addresses become its vaddrs."""

    binary: Binary
    segments: Sequence[Segment] | None
    how: str  # in words: which file, and how it was found
    build_id: str = ""  # of the file
    elf: ElfFile | None = None  # None for a mere archive
    placing: Placing | None = None  # a rule of its own, for files of the kernel
    cache: dict[Callable[[str], str] | None, CachedChains] | None = None  # by demangler; None: no chains are kept
    _call_frames: CallFrames | None = None

    def vaddrs(self, mapping: Mapping, addresses: array[int]) -> array[int]:
        """Return the vaddr of each address of a mapping; NOWHERE for addresses outside the file's code."""
        return self.placing(mapping, addresses) if self.placing else vaddrs(self.segments, mapping, addresses)

    def function_start(self, vaddr: int) -> int | None:
        """Return the start of the function at a vaddr by the file's call frame information; None without any."""
        if self._call_frames is None and self.elf is not None:
            self._call_frames = CallFrames([])
            with suppress(WhenceError):
                self._call_frames = CallFrames.of_elf(self.elf)
        return None if self._call_frames is None else function_start(self._call_frames, vaddr)


class MappingSearch(Record):
    """The result of the search for a mapping's file: `opened`, or the reason why it is missing."""

    mapping: Mapping
    opened: OpenedMapping | None = None
    missing: Missing | None = None
    tried: list[Tried] = field(default_factory=list)


class Binaries(Closing):
    """The open files of the mappings of one or several profiles; closed as a context manager.

    Args:
        locator: where files are: a Locator, a Store, or a path or address (default: the files of this machine).
        symbol_lists: names that are in no file.
        remember: keep what the files returned for the next profile, as profiles of one program have many addresses in
            common.
        once: there is one profile; a file is closed as soon as all of its mappings are done.
        local: use this machine's symbol lists and vDSO.
    """

    def __init__(
        self, locator: Places | None = None, *, symbol_lists: SymbolLists | None = None, remember: bool = False,
        once: bool = False, local: bool = True,
    ) -> None:  # fmt: skip
        self.remembers, self.once, self._local = remember, once, local
        self.system_names: dict[str, str] = {}  # of all profiles, if the files' chains are kept
        self.locator = locator_from(locator)
        self.symbol_lists = symbol_lists or SymbolLists(local=local)
        self.symbol_lists.folders = self.locator.dirs if local else ()
        self._searches: dict[tuple[str, str], MappingSearch] = {}  # the most recently used last
        self._open: list[OpenedFile] = []

    def __repr__(self) -> str:
        return f"<profiles.Binaries: {len(self._open)} open>"

    def close(self) -> None:
        """Close all files."""
        for opened in self._open:
            opened.close()
        self._open.clear()
        self._searches.clear()

    def trim(self, memory: int, files: int) -> None:
        """Close the least recently used files until at most `files` are left, which use at most `memory` bytes.

        Failed searches are dropped like files; they are repeated when their mapping is needed again.
        """
        used = sum(search.opened.binary.memory for search in self._searches.values() if search.opened is not None)
        for key, search in list(self._searches.items()):
            if len(self._searches) <= files and used <= memory:
                break
            del self._searches[key]
            if search.opened is not None:
                used -= search.opened.binary.memory
                self._close(search.opened)

    def done(self, mapping: Mapping) -> None:
        """Note that a profile needs a mapping's file no more; it is closed if there is only one profile."""
        search = self._searches.pop((mapping.path, mapping.build_id), None) if self.once else None
        if search is not None and search.opened is not None:
            self._close(search.opened)

    def _close(self, mapping: OpenedMapping) -> None:
        opened = next(opened for opened in self._open if opened.binary is mapping.binary)
        self._open.remove(opened)
        opened.close()

    @property
    def searches(self) -> list[MappingSearch]:
        """The searches whose results are kept, the most recently used last."""
        return list(self._searches.values())

    def search(self, mapping: Mapping, addresses: int = 1) -> MappingSearch:
        """Find the file of a mapping, to look up about `addresses` addresses in it. Each search is made once."""
        key = mapping.path, mapping.build_id
        search = self._searches.pop(key, None)
        if search is not None:
            self._searches[key] = search
        else:
            search = self._searches[key] = MappingSearch(mapping)
            try:
                self._search(search, addresses)
            except Exception as error:  # other mappings still get their names
                search.missing = Missing(*reason_of(error, f"looking for the file of {mapping.path}"))
        return search

    def _own_vdso(self, mapping: Mapping) -> ElfFile | None:
        """Return this machine's vDSO if it has the build-id of the mapping."""
        with suppress(OSError, WhenceError):
            elf = ElfFile.from_bytes(own_vdso(), VDSO)
            if elf.build_id == mapping.build_id:
                return elf
        return None

    def _search(self, search: MappingSearch, addresses: int) -> None:
        mapping = search.mapping
        own = self._own_vdso(mapping) if self._local and mapping.path == VDSO else None
        result = self.locator.search(
            FileQuery(mapping.build_id, mapping.path),
            own=own,
            addresses=addresses,
            places=lambda segments: can_translate(segments, mapping),
        )
        search.tried, search.missing, opened = result.tried, result.missing, result.opened
        if opened is None:
            if is_kernel(mapping) and (search.missing is None or search.missing.reason is not Reason.BROKEN_FILE):
                search.missing = Missing(Reason.NO_FILE, mapping.path, GIVE_KERNEL)
            return
        self._open.append(opened)
        source = opened.source_elf
        elf = source if isinstance(source, ElfFile) else None
        search.opened = OpenedMapping(opened.binary, opened.segments, opened.how, opened.build_id, elf)
        search.opened.cache = {} if self.remembers else None
        if is_kernel(mapping) and mapping.path != VDSO:
            search.opened.placing = placing(opened.source_elf, opened.segments, self.symbol_lists.text_address)
