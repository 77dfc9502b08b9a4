"""Small Mach-O programs, their dSYM bundles, and inputs of linkers."""

from __future__ import annotations

from pathlib import Path

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.lines import program as lines
from tests.forge.macho import UUID, X86_64, Section, Symbol, debug_map, dwarf_sections, forge, starts, text
from whence.objects.macho import MachoFile, layout

BASE = 0x100001000


def dsym_of(data_uuid: bytes = UUID, cpu: tuple[int, int] = X86_64) -> bytes:
    callee = function("inner", 0, 0)
    debug = Debug()
    debug.line += lines([("set_address", BASE), ("special", 0, 2), ("end", 0x40)], files=[(b"a.c", 0)])
    root = [(d.DW_AT_name, d.DW_FORM_string, "a.c"), (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0)]
    outer = function("outer", BASE, 0x40, inlined(callee, BASE + 8, 8, 7))
    debug.unit(Die(d.DW_TAG_compile_unit, root, [callee, outer]))
    sections = [text(), *dwarf_sections(debug.contents())]
    return forge(sections, uuid=data_uuid, cpu=cpu, type=layout.MH_DSYM)


def program(cpu: tuple[int, int] = X86_64) -> bytes:
    symbols = [Symbol("_outer", BASE), Symbol("_last", BASE + 0x40)]
    return forge([text()], symbols=symbols, function_starts=starts(0x1000, 0x40, 0x20), cpu=cpu, page=0x400)


def object_file() -> bytes:
    """The input of a linker, with relocated debug info."""
    with MachoFile.from_bytes(dsym_of()) as dsym:
        contents = {each.name.removeprefix(".debug_"): bytes(dsym.content(each)) for each in dsym.sections[2:]}
    sections = [text(0, 0x100), *dwarf_sections(contents)]
    sections[1] = Section("__DWARF", "__debug_info", contents["info"], 0x200000000, relocations=bytes(range(64)))
    symbols = [Symbol("_outer", 0x40), Symbol("_other", 0)]
    return forge(sections, symbols=symbols, uuid=b"", type=layout.MH_OBJECT, function_starts=starts(0x40))


def with_map() -> bytes:
    """A program whose debug info is in object files."""
    symbols = debug_map("/src/lib.a(x.o)", ("_outer", BASE, 0x40), ("_other", BASE + 0x40, 0x20), time=7)
    return forge([text()], symbols=[*symbols, *debug_map("/src/y.o", ("_more", BASE + 0x60, 8))])


def put_dsym(folder: Path, name: str, data: bytes) -> Path:
    bundle = folder / f"{name}.dSYM"
    inside = bundle / "Contents" / "Resources" / "DWARF"
    inside.mkdir(parents=True)
    (inside / name).write_bytes(data)
    return bundle
