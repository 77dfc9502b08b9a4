"""PDB files: superblock, directory, streams, DBI, type records, symbols, annotations, lines, public symbols."""

from __future__ import annotations

from tests.forge import pdb as forge
from tests.forge.pdb import Module, Pdb, annotate, inline_site, procedure, program, rearranged
from tests.hostile.inputs import pdb as hostile
from whence._base.errors import WhenceError
from whence._base.options import ReadOptions
from whence.objects.elf.function_symbols import functions
from whence.objects.pdb import PdbFile
from whence.pdb import PdbDebugInfo
from whence.pdb.sources import PdbSources
from whence.ranges import StringSpace
from whence.ranges.merge import merge


def seeds() -> list[bytes]:
    site = inline_site(forge.FIRST, annotate(("both", 1, 1), ("part", 4, 8), ("file", 0), ("length", 4)))
    simple = Pdb([Module(procedure("f", 0, 0x40, site), b"", [(1, 0, 0x40)])], ids=[forge.function_id("g")])
    return [
        program().forge(),
        program().forge(1024),
        simple.forge(),
        Pdb(machine=0x14C, publics=forge.public("_main", 0x10)).forge(),
        Pdb(named=hostile.sources()).forge(),
        rearranged(program().forge(), [(0x1000, 0), (0x1010, 0x3100), (0x1018, 0x3040), (0x1030, 0)]),
        hostile.many_pieces(20),
        hostile.deep_calls(20),
    ]


def target(data: bytes) -> None:
    with PdbFile.from_bytes(data) as file:
        functions(file, problems=[])
        for path in PdbSources(file).facts(["C:\\src\\main.c"]).values():
            assert path.text is None or len(path.text) <= len(data)
        if not file.has_debug_info:
            return
        for columns in (False, True):
            strings = StringSpace()
            try:
                debug_info = PdbDebugInfo(file, strings=strings, options=ReadOptions(columns=columns))
                table = debug_info.ranges(jobs=1)
            except WhenceError:
                continue
            assert 0 not in table.length, "a range of no bytes"
            for name in table.function[:100]:
                strings.text(name)
            for index, count in zip(table.line_index, table.line_count):
                assert index + count <= len(table.line_number)
            merge([table])
