"""Opening an object file of any format, recognized by its first bytes.

A slice of a fat file is named `FILE:ARCHITECTURE`, such as `app:arm64`, an object file in a zip file `ZIP!/ENTRY`. The
path of a dSYM bundle is that of the file in it, if there is only one.
"""

from __future__ import annotations

import os
from itertools import islice

from whence._base.errors import WRONG_KIND, ElfError, MachoError, empty_file, naming
from whence._base.files import open_regular, read_at
from whence._base.mapped import MappedFile
from whence.objects.elf.file import ElfFile
from whence.objects.elf.members import members
from whence.objects.zipped import MARK, read_entry, split_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

    from whence.objects.interface import ObjectFile

ELF_MAGIC = b"\x7fELF"
MACHO_MAGICS = (b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe")
DOS_MAGIC = b"MZ"
COFF_MACHINES = (b"\x64\x86", b"\x4c\x01", b"\x64\xaa", b"\x41\xa6", b"\xc0\x01", b"\xc4\x01")  # of object files
COFF_BIG = b"\0\0\xff\xff"
HEAD = 64  # bytes that tell an object file from other files that start with the number of a machine
WASM_MAGIC = b"\0asm"
PDB_MAGICS = (b"Micr", b"BSJB", b"MSFZ")  # the last two raise an error that says what they are
CABINET_MAGIC = b"MSCF"
FAT_MAGICS = (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
BREAKPAD_MAGIC = b"MODULE "  # of a text file
GSYM_MAGICS = (b"MYSG", b"GSYM")  # little-endian, big-endian
BUNDLE = ".dSYM"
BUNDLE_FILES = 64
MAGICS = (
    ELF_MAGIC, WASM_MAGIC, *MACHO_MAGICS, *FAT_MAGICS, *PDB_MAGICS, *GSYM_MAGICS, BREAKPAD_MAGIC[:4],
)  # fmt: skip


def split_architecture(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the path of a file and the architecture named after a colon, "" if the path is a file itself.

    For a dSYM bundle with one file, the path of that file.

    >>> split_architecture("/nowhere/app:arm64")
    ('/nowhere/app:arm64', '')
    """
    name = os.fspath(path)
    file, colon, architecture = name.rpartition(":")
    is_slice = colon and file and architecture and "/" not in architecture and not os.path.lexists(name)
    if not is_slice or not (os.path.isfile(file) or file.endswith(BUNDLE)):
        file, architecture = name, ""
    inside = files_in_bundle(file)
    return inside[0] if len(inside) == 1 else file, architecture


def files_in_bundle(path: str) -> list[str]:
    """Return the files with debug info in a dSYM bundle, sorted; [] if the path is not such a folder."""
    if not path.rstrip("/").endswith(BUNDLE):
        return []
    folder = os.path.join(path, "Contents", "Resources", "DWARF")
    try:
        return sorted(os.path.join(folder, name) for name in islice(os.listdir(folder), BUNDLE_FILES))
    except OSError:
        return []


def architectures(path: str) -> tuple[str, ...]:
    """Return the architectures of a fat file in its order, () for other files. Raises OSError, MachoError."""
    with open_regular(path, ElfError) as (descriptor, size):
        if read_at(descriptor, 4, 0) not in FAT_MAGICS or not size:
            return ()
        from whence.objects.macho.fat import is_fat, read_slices

        data = MappedFile(descriptor, path, MachoError).view
        return tuple(part.architecture for part in read_slices(data)) if is_fat(data) else ()


def is_magic(head: bytes) -> bool:
    """Return True if the first 4 bytes of a file are those of an object file."""
    return head in MAGICS or head[:2] == DOS_MAGIC


def is_object_head(head: bytes) -> bool:
    """Return True if the first 64 bytes of a file are those of an object file, also of COFF's, which has no magic."""
    if is_magic(head[:4]):
        return True
    if head[:2] not in COFF_MACHINES and head[:4] != COFF_BIG:
        return False
    from whence.objects.pe.headers import read_object_header

    return read_object_header(memoryview(head)) is not None


def is_object(path: str | os.PathLike[str]) -> bool:
    """Return True if a file begins like an object file. Raises OSError; ElfError if it is not a regular file."""
    if split_entry(os.fspath(path))[1]:
        return True
    with open_regular(split_architecture(path)[0], ElfError) as (descriptor, _):
        return is_object_head(os.read(descriptor, HEAD))


def object_of_bytes(data: Buffer, path: str = "") -> ObjectFile:
    """Return an object file in memory; the bytes are not copied and must not change. Raises an ObjectError."""
    view = memoryview(data)
    if view[:4] in MACHO_MAGICS or view[:4] in FAT_MAGICS:
        from whence.objects.macho.file import MachoFile

        return MachoFile.in_data(view, path=path)
    if view[:4] == WASM_MAGIC:
        from whence.objects.wasm.file import WasmFile

        return WasmFile.from_bytes(data, path)
    if view[:4] in PDB_MAGICS or view[:4] == CABINET_MAGIC:
        from whence.objects.pdb.file import PdbFile

        return PdbFile.from_bytes(data, path)
    if view[:4] in GSYM_MAGICS:
        from whence.objects.gsym import GsymFile

        return GsymFile.from_bytes(data, path)
    if view[: len(BREAKPAD_MAGIC)] == BREAKPAD_MAGIC:
        from whence.objects.breakpad import BreakpadFile

        return BreakpadFile.from_bytes(data, path)
    if view[:4] != ELF_MAGIC and is_object_head(bytes(view[:HEAD])):
        from whence.objects.pe.file import PeFile

        return PeFile.from_bytes(data, path)
    return ElfFile.from_bytes(data, path)


def open_object(path: str | os.PathLike[str]) -> ObjectFile:
    """Map an object file, or a slice of a fat file. Raises OSError, and an ObjectError of the file's format."""
    name, architecture = split_architecture(path)
    if MARK in name:
        file, entry = split_entry(name)
        if entry:
            content = read_entry(file, entry)
            if content.data[: len(ELF_MAGIC)] == ELF_MAGIC:
                return ElfFile(content.data, content.name, content.mapped, content.start)
            return object_of_bytes(content.data, content.name)
    with open_regular(name, ElfError) as (descriptor, size):
        if not size:
            raise empty_file(ElfError).in_file(name)
        magic = read_at(descriptor, 4, 0)
        if magic in MACHO_MAGICS or magic in FAT_MAGICS:
            from whence.objects.macho.file import MachoFile  # most files are ELF files

            return MachoFile.open(name, architecture)
        if architecture:
            fault = f"the file has no architectures to choose from, such as {architecture}"
            raise ElfError("", None, fault, code=WRONG_KIND, path=name)
        if magic == WASM_MAGIC:
            from whence.objects.wasm.file import WasmFile

            return WasmFile.open(name)
        if magic in PDB_MAGICS or magic == CABINET_MAGIC:
            from whence.objects.pdb.file import PdbFile

            return PdbFile.open(name)
        if magic in GSYM_MAGICS:
            from whence.objects.gsym import GsymFile

            return GsymFile.open(name)
        if magic == BREAKPAD_MAGIC[:4]:
            from whence.objects.breakpad import BreakpadFile

            return BreakpadFile.open(name)
        if magic != ELF_MAGIC and is_object_head(read_at(descriptor, min(HEAD, size), 0)):
            from whence.objects.pe.file import PeFile

            return PeFile.open(name)
    return ElfFile.open(name)


def open_linked(path: str, member: str = "", architecture: str = "") -> tuple[ObjectFile, int]:
    """Map an object file, or a member of a static library, of a debug map; also return when it was modified.

    The time is in seconds since 1970, 0 if unknown. Of a fat file, the slice of the architecture is used. Raises
    OSError, MachoError.
    """
    from whence.objects.macho.fat import choose, is_fat, read_slices
    from whence.objects.macho.file import MachoFile

    name = f"{path}({member})" if member else path
    with open_regular(path, MachoError) as (descriptor, size), naming(name):
        if not size:
            raise empty_file(MachoError)
        modified = int(os.fstat(descriptor).st_mtime)
        mapped = MappedFile(descriptor, path, MachoError)
        start, end = 0, size
        if is_fat(mapped.view):
            chosen = choose(read_slices(mapped.view), architecture, path)
            start, end = chosen.file_offset, chosen.file_offset + chosen.size
        if member:
            entry = next((each for each in members(descriptor, end, start) if each.name == os.fsencode(member)), None)
            if entry is None or entry.offset < 0:
                raise FileNotFoundError(2, f"no member {member!r} in {path!r}")
            start, end, modified = entry.offset, entry.offset + entry.size, entry.time
        return MachoFile(mapped.view[start:end], name, mapped, start), modified
