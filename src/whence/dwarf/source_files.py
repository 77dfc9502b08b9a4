"""Checksums and embedded text of source files: the MD5 and LLVM_source entries of version 5 file tables.

clang writes an MD5 for each file, and with -gembed-source the text itself; gcc 12 writes neither. Programs without
such entries are skipped by their lengths. DWARF 5, section 6.2.4.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from whence._base.errors import DwarfError
from whence._base.window import ByteOrder, Window, uleb
from whence.dwarf.kernels import constants
from whence.dwarf.line_files import continued, short_text

VERSION_5 = 5
DW_LNCT_MD5 = 0x5
DW_LNCT_LLVM_SOURCE = 0x2001
LENGTH_64 = 0xFFFFFFFF  # the length of a program in the 64-bit format follows
MD5_BYTES = 16
FILES_READ = 1 << 21  # entries of all programs
SOURCE_BYTES = 16 << 20  # of an embedded file

FIXED_SIZES = {
    constants.DW_FORM_data1: 1, constants.DW_FORM_data2: 2, constants.DW_FORM_data4: 4, constants.DW_FORM_data8: 8,
    constants.DW_FORM_data16: MD5_BYTES,
}  # fmt: skip


class DebugSource(NamedTuple):
    """A source file in debug info: its MD5 in hex, "" if missing, and its text, None if not embedded."""

    md5: str = ""
    text: bytes | None = None


class LineStrings(NamedTuple):
    """The sections that file tables are in or refer to."""

    debug_line: memoryview
    debug_str: memoryview
    debug_line_str: memoryview
    order: ByteOrder


def debug_sources(sections: LineStrings, paths: Collection[str]) -> dict[str, DebugSource]:
    """Return what the debug info has of some files, by path. A damaged program ends the search."""
    wanted = {path.encode("utf-8", "surrogateescape") for path in paths}
    sources: dict[str, DebugSource] = {}
    window = Window(sections.debug_line, ".debug_line", sections.order, DwarfError)
    start, left = 0, FILES_READ
    try:
        while start < len(window.data) and len(sources) < len(wanted) and left > 0:
            length, offset, is_64 = window.u32(start), start + 4, False
            if length == LENGTH_64:
                length, offset, is_64 = window.u64(offset), offset + 8, True
            end = offset + length
            if window.u16(offset) == VERSION_5:
                reader = FileTableReader(sections, window, offset, min(end, len(window.data)), is_64)
                left -= reader.read(wanted, sources)
            start = end
    except (DwarfError, EOFError, OverflowError):
        pass
    return sources


class FileTableReader:
    """Reads the tables of directories and files of one program."""

    def __init__(self, sections: LineStrings, window: Window, offset: int, end: int, is_64: bool) -> None:
        self._window, self._end, self._is_64 = window, end, is_64
        self._strings = {
            constants.DW_FORM_line_strp: Window(sections.debug_line_str, ".debug_line_str", sections.order, DwarfError),
            constants.DW_FORM_strp: Window(sections.debug_str, ".debug_str", sections.order, DwarfError),
        }
        # version, address_size, seg_selector_size, header_length; minimum_instruction_length to opcode_base
        self._offset = offset + 4 + (8 if is_64 else 4)
        opcode_base = window.u8(self._offset + 5)
        self._offset += 6 + max(opcode_base - 1, 0)

    def read(self, wanted: Collection[bytes], sources: dict[str, DebugSource]) -> int:
        """Add the wanted files that have a checksum or text to `found`. Return the number of entries read."""
        directories = [fields.get(constants.DW_LNCT_path, b"") for fields in self._table(self._formats(), wanted=None)]
        formats = self._formats()
        if not {DW_LNCT_MD5, DW_LNCT_LLVM_SOURCE} & {kind for kind, _ in formats}:
            return len(directories)
        own = directories[0] if directories else b""
        ends = tuple({path.rpartition(b"/")[2] for path in wanted})
        count = 0
        for fields in self._table(formats, ends):
            count += 1
            name = fields.get(constants.DW_LNCT_path, b"")
            if not isinstance(name, bytes) or not name.endswith(ends):
                continue
            number = fields.get(constants.DW_LNCT_directory_index, 0)
            folder = directories[number] if isinstance(number, int) and number < len(directories) else b""
            assert isinstance(own, bytes)
            assert isinstance(folder, bytes)
            path = continued(continued(own, folder if folder != own else b""), name)
            key = path.decode("utf-8", "surrogateescape")
            if path in wanted and key not in sources:
                md5, text = fields.get(DW_LNCT_MD5, b""), fields.get(DW_LNCT_LLVM_SOURCE)
                sources[key] = DebugSource(
                    md5.hex() if isinstance(md5, bytes) else "", text if isinstance(text, bytes) and text else None
                )
        return count + len(directories)

    def _formats(self) -> list[tuple[int, int]]:
        """Return the content type and form of each field of a table's entries."""
        count = self._window.u8(self._offset)
        self._offset += 1
        return [(self._number(), self._number()) for _ in range(count)]

    def _table(self, formats: list[tuple[int, int]], wanted: tuple[bytes, ...] | None) -> list[dict[int, bytes | int]]:
        """Return the entries of a table. Embedded text is read only for files whose names end like a wanted one."""
        count = self._number()
        if formats and count > self._end - self._offset:
            raise DwarfError(".debug_line", self._offset, f"a table of {count} entries extends past the end")
        rows = []
        for _ in range(count if formats else 0):
            fields: dict[int, bytes | int] = {}
            for kind, form in formats:
                is_text = kind == DW_LNCT_LLVM_SOURCE
                name = fields.get(constants.DW_LNCT_path, b"")
                skip = is_text and not (wanted and isinstance(name, bytes) and name.endswith(wanted))
                fields[kind] = self._value(form, SOURCE_BYTES if is_text else 0, skip)
            rows.append(fields)
        return rows

    def _number(self) -> int:
        value, self._offset = uleb(self._window.data, self._offset, self._end)
        return value

    def _value(self, form: int, most: int, skip: bool) -> bytes | int:
        """Return a field: bytes of texts, blocks and checksums, else a number. `most` is the size of embedded text."""
        window, offset = self._window, self._offset
        if form in self._strings:
            position = window.u64(offset) if self._is_64 else window.u32(offset)
            self._offset += 8 if self._is_64 else 4
            if skip:
                return b""
            return text_at(self._strings[form], position, most)
        if form == constants.DW_FORM_string:
            text = text_at(window, offset, most)
            self._offset += len(text) + 1
            return text
        if form == constants.DW_FORM_udata:
            return self._number()
        size = FIXED_SIZES.get(form)
        if form == constants.DW_FORM_block:
            size = self._number()
            offset = self._offset
        if size is None:
            raise DwarfError(".debug_line", offset, f"form {form:#x} is not allowed in a table of files")
        window.need(offset, size)
        self._offset += size
        data = bytes(window.data[offset : offset + size])
        return (
            data if form in (constants.DW_FORM_data16, constants.DW_FORM_block) else int.from_bytes(data, window.order)
        )


def text_at(window: Window, offset: int, most: int) -> bytes:
    """Return the text at an offset: a name, or embedded source of at most `most` bytes. Raises DwarfError."""
    if not most:
        return short_text(window, offset)
    window.need(offset, 1)
    text, nul, _ = bytes(window.data[offset : offset + most]).partition(b"\0")
    if not nul:
        raise window.error(window.name, offset, f"an embedded source file has more than {most} bytes")
    return text


__all__ = ["DebugSource", "LineStrings", "debug_sources"]
