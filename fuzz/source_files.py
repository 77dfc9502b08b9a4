"""File tables of line programs: any bytes give checksums and texts of the requested files, never anything raised."""

from tests.forge.source_tables import line_program
from whence.dwarf.source_files import LineStrings, debug_sources

MD5 = bytes(range(16))
PATHS = {"/src/a.c", "/src/inc/b.h", "/x"}


def seeds() -> list[bytes]:
    """Programs in both formats, with and without texts."""
    return [
        line_program([(b"a.c", 0, MD5, b"int a;\n"), (b"b.h", 1, MD5, b"")], with_text=with_text, wide=wide)
        for with_text in (False, True)
        for wide in (False, True)
    ]


def target(data: bytes) -> None:
    view = memoryview(data)
    result = debug_sources(LineStrings(view, view, view, "little"), PATHS)
    if not result.keys() <= PATHS:
        raise AssertionError("only requested files are returned")
    for source in result.values():
        if len(source.md5) not in (0, 32) or (source.text is not None and len(source.text) > len(data)):
            raise AssertionError("an MD5 has 16 bytes, and a text is a part of the input")
