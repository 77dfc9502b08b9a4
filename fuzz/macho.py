"""Mach-O files: thin and fat, object files with relocations, debug maps, dSYM companions."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.macho import ARM64, X86_64, Symbol, fat, forge, text
from tests.helpers.macho import dsym_of, object_file, program, with_map
from tests.helpers.objects import read_all
from whence._base.errors import WhenceError
from whence.dwarf.linked import pieces_of
from whence.objects.macho import MachoFile


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
