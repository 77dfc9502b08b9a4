"""`whence.open`: an object file or an archive, recognized by its content."""

from __future__ import annotations

import os
from difflib import get_close_matches

from whence._base.errors import naming
from whence._base.options import DEFAULTS, ReadOptions
from whence._base.records import replaced
from whence.binary import Binary, elf_of_bytes, is_archive, open_archive, open_elf
from whence.lidia.compressed import codec_of
from whence.lidia.layout import MAGICS
from whence.lidia.table import from_bytes
from whence.locator.coerce import locator_from, split_fields
from whence.locator.locator import Locator
from whence.locator.options import LOCATOR_NAMES
from whence.objects.interface import ObjectFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, BinaryIO, Unpack

    from whence._base.options import ReadFields
    from whence.locator.coerce import Places
    from whence.locator.options import LocatorFields

    class OpenFields(ReadFields, LocatorFields, total=False):
        """Fields of ReadOptions, and keywords of a Locator."""


READ_FIELDS = frozenset(ReadOptions._fields)


def open_binary(
    path: str | PathLike[str] | bytes | BinaryIO,
    *,
    locator: Places | None = None,
    options: ReadOptions = DEFAULTS,
    **changes: Unpack[OpenFields],
) -> Binary:
    """Open an object file or an archive, recognized by its content, for lookups.

    Only headers are read now; lookups read what they need.

    >>> import whence
    >>> with whence.open("libc.so.6", demangle=True) as binary:  # doctest: +SKIP
    ...     print(binary.lookup(0x28150))

    Args:
        path: an object file (ELF, Mach-O, PE, WebAssembly), or an archive, which may be compressed by gzip
            or zstd: a path, the bytes of the file, or an open binary file. The path of a slice of a fat file is
            FILE:ARCHITECTURE.
        locator: where separate debug files and archives of stripped files are: a Locator, a Store, or a path or
            address. By default, debug files in /usr/lib/debug and next to the file.
        options: what to read and how to render it.
        changes: fields of ReadOptions by name, which replace those of `options`: dwarf, symtab, gopclntab, names,
            paths, columns, skip_line_zero, demangle, jobs. An archive has its own names, paths and columns, so only
            `demangle` counts. Or keywords of whence.Locator: store, debug_dirs, binaries, ...

    Raises:
        ObjectError, LidiaError: the file is neither, or is damaged.
        Unsupported: the file is a core file.
        OSError: the file can't be read.
        TypeError: a keyword is unknown.
    """
    fields, others = split_fields(changes, READ_FIELDS)
    check_names(others)
    options = replaced(options, **others)
    finder = locator_from(locator, **fields) if fields or locator is not None else None
    if not isinstance(path, str | os.PathLike):
        data = path if isinstance(path, bytes | bytearray | memoryview) else read_all(path)
        return open_bytes(bytes(data), str(getattr(path, "name", "")), finder, options)
    if is_archive(path):
        return open_archive(path, demangle=options.demangle)
    if finder is not None:
        return finder.open(path, options=options)
    return from_elf(open_elf(path), options)


def check_names(changes: dict[str, Any]) -> None:
    """Raise TypeError for a keyword that is neither a field of ReadOptions nor one of a Locator."""
    for name in changes.keys() - READ_FIELDS:
        similar = get_close_matches(name, [*READ_FIELDS, *LOCATOR_NAMES], 1)
        hint = f": did you mean {similar[0]}?" if similar else ""
        raise TypeError(f"open() has no keyword {name!r}{hint}")


def read_all(file: Any) -> bytes:
    """Return the content of an open binary file. Raises TypeError for anything else."""
    data = file.read() if hasattr(file, "read") else None
    if isinstance(data, bytes):
        return data
    kind = "a file in text mode: open it with mode 'rb'" if isinstance(data, str) else f"a {type(file).__name__}"
    raise TypeError(f"open() accepts a path, bytes or an open binary file, not {kind}")


def open_bytes(data: bytes, path: str, locator: Locator | None, options: ReadOptions) -> Binary:
    """Open the bytes of an object file or archive. `path` is its name for people, which is not opened."""
    with naming(path):
        if codec_of(data[:4]) or data[:4] in MAGICS:
            return Binary(table=from_bytes(data, demangle=options.demangle), path=path)
        elf = elf_of_bytes(data, path)
    return from_elf(elf, options) if locator is None else locator.complete(elf, options=options)


def from_elf(elf: ObjectFile, options: ReadOptions) -> Binary:
    """Return a Binary that owns an open ELF file; on an error the file is closed."""
    try:
        return Binary.from_elf(elf, options=options)
    except BaseException:
        elf.close()
        raise
