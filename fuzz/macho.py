"""Mach-O files: thin and fat, object files with relocations, debug maps, dSYM companions."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.macho import ARM64, X86_64, Section, Symbol, debug_map, dwarf_sections, fat, forge, starts, text
from tests.helpers.macho import BASE, dsym_of, program
from tests.helpers.objects import read_all
from whence._base.errors import WhenceError
from whence.dwarf.linked import pieces_of
from whence.objects.macho import MachoFile, layout


def object_file() -> bytes:
    """The input of a linker, with relocated debug info."""
    with MachoFile.from_bytes(dsym_of()) as dsym:
        contents = {one.name.removeprefix(".debug_"): bytes(dsym.content(one)) for one in dsym.sections[2:]}
    sections = [text(0, 0x100), *dwarf_sections(contents)]
    sections[1] = Section("__DWARF", "__debug_info", contents["info"], 0x200000000, relocations=bytes(range(64)))
    symbols = [Symbol("_outer", 0x40), Symbol("_other", 0)]
    return forge(sections, symbols=symbols, uuid=b"", type=layout.MH_OBJECT, function_starts=starts(0x40))


def with_map() -> bytes:
    symbols = debug_map("/src/lib.a(x.o)", ("_outer", BASE, 0x40), ("_other", BASE + 0x40, 0x20), time=7)
    return forge([text()], symbols=[*symbols, *debug_map("/src/y.o", ("_more", BASE + 0x60, 8))])


def seeds() -> list[bytes]:
    thin = [
        program(), dsym_of(), object_file(), with_map(), forge([text(0x1000)], bits=32, order="big"),
        forge([text(0x4000)], symbols=[Symbol("_a", 0x4000)], cpu=(0x0200000C, 1), bits=32),
    ]  # fmt: skip
    return [*thin, fat((X86_64, thin[0]), (ARM64, thin[3])), fat((X86_64, thin[0]), (ARM64, thin[1]), wide=True)]


def target(data: bytes) -> None:
    for architecture in ("", "arm64"):
        with suppress(WhenceError):
            read_all(lambda content, name=architecture: MachoFile.in_data(memoryview(content), name), data)  # type: ignore[misc]
    with suppress(WhenceError), MachoFile.from_bytes(object_file()) as own, MachoFile.from_bytes(data) as file:
        for entry in file.linked_objects:
            pieces_of(entry, own)
            pieces_of(entry, file)
