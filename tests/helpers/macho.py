"""Small Mach-O programs and their dSYM bundles."""

from __future__ import annotations

from pathlib import Path

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.lines import program as lines
from tests.forge.macho import UUID, X86_64, Symbol, dwarf_sections, forge, starts, text
from whence.objects.macho import layout

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


def put_dsym(folder: Path, name: str, data: bytes) -> Path:
    bundle = folder / f"{name}.dSYM"
    inside = bundle / "Contents" / "Resources" / "DWARF"
    inside.mkdir(parents=True)
    (inside / name).write_bytes(data)
    return bundle
