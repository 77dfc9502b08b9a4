"""`whence.open`: an object file or an archive, recognized by its content."""

from __future__ import annotations

from whence._base.options import DEFAULTS, ReadOptions
from whence._base.records import replaced
from whence.binary import Binary, is_archive, open_archive, open_elf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Unpack

    from whence._base.options import ReadFields
    from whence.locator.locator import Locator


def open_binary(
    path: str | PathLike[str],
    *,
    locator: Locator | None = None,
    options: ReadOptions = DEFAULTS,
    **changes: Unpack[ReadFields],
) -> Binary:
    """Open an object file or an archive, recognized by its content, for lookups.

    Only headers are read now; lookups read what they need.

    >>> import whence
    >>> with whence.open("libc.so.6", demangle=True) as binary:  # doctest: +SKIP
    ...     print(binary.lookup(0x28150))

    Args:
        path: an ELF file, or an archive, which may be compressed by gzip or zstd.
        locator: finds separate debug files and archives of stripped files. Without one, debug files are looked for
            in /usr/lib/debug and next to the file.
        options: what to read and how to render it.
        changes: fields of ReadOptions by name, which replace those of `options`: dwarf, symtab, gopclntab, names,
            paths, columns, skip_line_zero, demangle, jobs. An archive has its own names, paths and columns, so only
            `demangle` counts.

    Raises:
        ElfError, LidiaError: the file is neither, or is damaged.
        Unsupported: the file is a core file.
        OSError: the file can't be read.
    """
    options = replaced(options, **changes)
    if is_archive(path):
        return open_archive(path, demangle=options.demangle)
    if locator is not None:
        return locator.open(path, options=options)
    elf = open_elf(path)
    try:
        return Binary.from_elf(elf, options=options)
    except BaseException:
        elf.close()
        raise
