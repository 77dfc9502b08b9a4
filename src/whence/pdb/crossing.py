"""Ids that a module imports from other modules, which MSVC's link-time code generation writes.

An inlined function of another module has an id with the highest bit set: bits 20 to 30 are the index of an entry in the
module's imports (DEBUG_S_CROSSSCOPEIMPORTS), bits 0 to 19 the index of an id in it. The entry has the name of the other
module, whose exports (DEBUG_S_CROSSSCOPEEXPORTS) are pairs of that id and the record's number in the IPI stream.
"""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import PdbError
from whence.objects.pdb import layout
from whence.pdb.kernels import constants as c
from whence.pdb.kernels.modules import find_subsection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.objects.pdb import PdbFile

NAME_LIMIT = 4096  # bytes of the name of a module
UNKNOWN = 0
NONE = array("I", [0]), array("I")


class CrossModuleIds:
    """The ids of a PDB file's modules, read when another module refers to them. Damaged parts have no ids."""

    def __init__(self, pdb: PdbFile) -> None:
        self._pdb = pdb
        self._exports: dict[int, dict[int, int]] = {}
        self._modules: dict[str, int] | None = None
        self._names: memoryview | None = None

    def imported(self, module: int, content: memoryview) -> tuple[array[int], array[int]]:
        """Return the ids that a module imports, entry after entry, and where each entry starts in them.

        `content` is the module's stream.
        """
        data = self._subsection(module, content, c.DEBUG_S_CROSSSCOPEIMPORTS)
        if not len(data):
            return NONE
        starts, ids = array("I", [0]), array("I")
        offset = 0
        while offset <= len(data) - 8:
            name, count = struct.unpack_from("<II", data, offset)
            offset += 8
            if count > (len(data) - offset) // 4:
                break
            exports = self._exports_of(name)
            ids.extend(
                exports.get(import_index, UNKNOWN) for import_index in struct.unpack_from(f"<{count}I", data, offset)
            )
            starts.append(len(ids))
            offset += 4 * count
        return starts, ids

    def _exports_of(self, name: int) -> dict[int, int]:
        """Return the numbers of the ids that the module with a name exports; the name is an offset in /names."""
        module = self._module_named(name)
        if module < 0:
            return {}
        if module not in self._exports:
            assert self._pdb.dbi is not None
            try:
                stream = self._pdb.dbi.modules.stream[module]
                content = self._pdb.data[:0] if stream == layout.NO_STREAM else self._pdb.msf.stream(stream)
            except PdbError:  # which is reported where the module itself is read
                content = self._pdb.data[:0]
            data = self._subsection(module, content, c.DEBUG_S_CROSSSCOPEEXPORTS)
            self._exports[module] = dict(struct.iter_unpack("<II", data[: len(data) & ~7]))
        return self._exports[module]

    def _module_named(self, name: int) -> int:
        """Return the number of the module with a name, in any case; -1 without one."""
        assert self._pdb.dbi is not None
        if self._modules is None or self._names is None:
            dbi = self._pdb.dbi
            names = [dbi.module_name(module).casefold() for module in range(len(dbi.modules))]
            self._modules = {text: module for module, text in reversed([*enumerate(names)])}
            try:
                self._names = self._pdb.named_stream("/names")[layout.NAMES_HEADER :]
            except PdbError:
                self._names = self._pdb.data[:0]
        text = bytes(self._names[name : name + NAME_LIMIT]).partition(b"\0")[0]
        return self._modules.get(text.decode("utf-8", "surrogateescape").casefold(), -1)

    def _subsection(self, module: int, content: memoryview, kind: int) -> memoryview:
        """Return the first subsection of a kind in a module's stream; empty without one."""
        assert self._pdb.dbi is not None
        modules = self._pdb.dbi.modules
        start, size = modules.symbols[module] + modules.c11[module], modules.c13[module]
        if start + size > len(content) or not size:
            return content[:0]
        offset, length = find_subsection(content, start, size, kind)
        return content[offset : offset + length]
