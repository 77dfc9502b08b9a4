"""Files that claim more than their bytes justify: each is read within its seconds and megabytes, or refused.

A row of CASES is a file, its reader (a command line in which FILE and OUT are replaced by paths, or a function of the
path), the processor seconds and megabytes it may take, its exit codes (3 for a function that raises) and what it
says. A row of INTERRUPTED is a file and a command that Ctrl-C ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.hostile import bounded, interrupted
from tests.hostile.inputs import (
    cfi,
    dwarf,
    elf,
    gopclntab,
    gotrace,
    lidia,
    minidumps,
    names,
    pdb,
    procmap,
    tables,
)

ANY = (0, 1, 3)
UNPACKED = "unpacked bytes take more than 64 times its"
FOUND = "[('found',)] "  # the names of the one function that is not damaged


class Case(NamedTuple):
    make: Callable[[], bytes]
    run: str | Callable[[Path], object]
    seconds: float
    megabytes: float
    codes: tuple[int, ...] = (0,)
    says: tuple[str, ...] = ()
    stdin: bytes = b""
    output: int = 256 << 20  # bytes on stdout, at most

    def __str__(self) -> str:
        reader = self.run if isinstance(self.run, str) else self.run.__name__
        return f"{described(self.make)}: {reader}"


def described(make: Callable[[], bytes]) -> str:
    """Return a maker's name and what it is called with."""
    if not isinstance(make, partial):
        return make.__name__
    values = [each[:9] if isinstance(each, bytes) else each for each in make.args]
    return f"{make.func.__name__} {' '.join(map(str, [*values, *make.keywords.items()]))}"


def cases() -> Iterator[Case]:
    make: Callable[..., bytes]
    told: tuple[str, ...]
    # ELF: tables whose entries share their bytes
    shared = partial(elf.big_text, 50_000, 4 << 20)
    for command in ("symbols FILE", "symbols --no-demangle FILE", "lidia create FILE -o OUT",
                    "lidia create --compat go FILE -o OUT"):  # fmt: skip
        yield Case(shared, command, 4, 350, ANY, ("take more than",))
    yield Case(shared, "addr FILE 0x1010 0x8000", 4, 350)
    yield Case(elf.symbols_over_each_other, "lidia create FILE -o OUT", 3, 200)
    yield Case(elf.shared_notes, "build-id FILE", 4, 250, (1, 3))
    for wrapped in (False, True):
        yield Case(partial(elf.minidebuginfo, wrapped=wrapped), "symbols FILE", 3, 60, ANY, (".gnu_debugdata",))
    yield Case(tables.count_beyond, "core FILE", 2, 150, (3,), ("1048576 entries extend past the end of the note",))
    yield Case(tables.one_head_for_all, "core FILE", 2, 150, (3,), ("first pages of mapped files take more than",))
    yield Case(minidumps.threads_of_one_stack, "core FILE", 4, 150, (1,))
    for listed in (minidumps.modules_of_one_name, minidumps.annotations_of_one_text):
        yield Case(listed, "core FILE --info", 6, 150, (0,), ("names of modules and threads take more than",))
    yield Case(minidumps.memory_of_one_range, "core FILE", 4, 300, (1,))
    yield Case(tables.notes_in_notes, tables.mappings_of, 3, 60, (0,), ("notes take more than 2 times",))
    yield Case(tables.core_of_many_files, tables.mappings_of, 4, 150, (0,), ("59999 mappings; ",))
    for symbols in (1, 60_000):
        for command in ("symbols FILE", "lidia create FILE -o OUT"):
            make = partial(tables.many_stubs, symbols=symbols)
            yield Case(make, command, 3, 200, ANY, ("names of stubs take more than",))
    for count in (1, 500):
        yield Case(partial(tables.many_relocations, tables=count), "addr FILE 0x10", 3, 200, (0, 1))
    yield Case(tables.version_tables, "symbols FILE", 3, 60, (0,), ("main",))

    # Linkage names that expand to far more text than they have letters: to 64 KB, which is kept, and to 512 KB
    for levels, count, output in ((11, 1500, 44 << 20), (14, 400, 36 << 20)):
        for command in ("symbols FILE", "lidia create --demangle FILE -o OUT"):
            yield Case(partial(names.expanding, levels, count), command, 3, 250, output=output)
    yield Case(names.names_of_a_megabyte, "symbols FILE", 3, 100, (0,), ("f()",))

    # DWARF: one damaged part costs no other unit
    for pack, says in ((False, FOUND), (True, UNPACKED)):
        fault = () if pack else ("takes more work than the size of the unit allows",)
        yield Case(partial(dwarf.attributes_of_units, pack=pack), dwarf.ask, 2, 150, (0,), (says, *fault))
        fault = () if pack else ("finding names takes more work",)
        for shape in (dwarf.attributes_of_functions, dwarf.attribute_again_and_again):
            yield Case(partial(shape, pack=pack), dwarf.ask, 2, 150, (0,), (says, *fault))
    yield Case(dwarf.tables_in_each_other, dwarf.ask, 3, 150, (0,), (FOUND, "abbreviation tables are read more often"))
    yield Case(partial(dwarf.line_rows, 100_000_000), dwarf.ask, 2, 120, (0,), (FOUND, UNPACKED))
    yield Case(partial(dwarf.line_rows, 1_100_000), dwarf.ask, 3, 250, (0,), (FOUND + "0 problems",))
    yield Case(dwarf.packed_zeros, dwarf.ask, 2, 120, (0,), (UNPACKED,))
    yield Case(dwarf.zeros, dwarf.ask, 3, 80, (0,), (FOUND + "1 problems", "the unit is shorter than its header"))
    yield Case(dwarf.bad_units, dwarf.ask, 2, 100, (0,), (FOUND + "1001 problems", "more than 1000 problems"))
    yield Case(dwarf.too_many_units, dwarf.ask, 3, 150, (0,), (FOUND, "more units than 65,536"))
    yield Case(dwarf.overlapping_units, dwarf.ask_many, 4, 250, (0,), ("[('found',), ",))
    yield Case(dwarf.random_sections, dwarf.contents, 3, 60, (0,), (f"{4 << 20} bytes, 1 in memory",))
    yield Case(dwarf.zero_sections, dwarf.contents, 3, 60, (3,), (UNPACKED,))
    yield Case(dwarf.ten_small_sections, dwarf.contents, 3, 60, (3,), ("elf sections", "plus 4194304"))

    # Call frame information: rows, and FDEs that are damaged
    for make, rows, damaged in (
        (cfi.row_at_every_byte, 0, 5), (cfi.states_of_many_rules, 0, 5), (cfi.states_in_turn, 0, 5),
        (cfi.expressions_of_their_own, 748_935, 0), (cfi.functions_that_overlap, 209_714, 0),
        (cfi.empty_functions, 209_714, 0), (cfi.cie_for_each, 95_326, 0), (cfi.long_cie, 50_000, 0),
    ):  # fmt: skip
        yield Case(make, cfi.compile_all, 3, 250, (0,), (f"({rows}, {damaged})",))

    # Go's tables, where functions share their pc-value tables and inline trees
    for make in (gopclntab.line_at_every_byte, gopclntab.deep_trees, gopclntab.old_deep_trees, gopclntab.standstill,
                 gopclntab.short_functions, gopclntab.many_pieces):  # fmt: skip
        yield Case(make, "lidia create FILE -o OUT", 4, 300, (0, 3))

    # PDB files: pieces of calls under calls that cover them, calls inside each other, folded code, shared long names
    for make, said in (
        (partial(pdb.many_pieces, 12_000), "without their inlined calls"),
        (partial(pdb.deep_calls, 2000), ""),
        (partial(pdb.folded, 10_000), ""),
        (partial(pdb.long_scopes, 20_000), "names without their scope"),
    ):
        yield Case(make, "lidia create FILE -o OUT", 4, 200, (0,), (said,))

    # Archives: names, line entries and depths cost nothing to repeat
    asked = "".join(f"{16 * row:x}\n" for row in range(200)).encode()
    for make in (lidia.shared_name, lidia.shared_lengths):
        yield Case(make, "lidia verify FILE", 3, 100)
        told = ("names of ranges take more than",)
        yield Case(make, "lidia dump --no-demangle FILE", 10, 100, (3,), told)
        for style in ("llvm", "gnu", "json"):
            yield Case(make, f"addr --style {style} FILE", 3, 400, stdin=asked)
    yield Case(lidia.deep, "lidia dump FILE", 3, 60, (0,), ("depth 4294967295",), output=10_000)
    yield Case(lidia.deep, "lidia dump --json FILE", 3, 60, (0,), ('"depth": 4294967295',))
    yield Case(lidia.shared_lines, "lidia dump FILE", 6, 150, (3,), ("line entries of ranges take more than",))
    for codec in ("gzip", "zstd"):
        says = "decompressed bytes take more than 100 times its"
        yield Case(partial(lidia.bomb, codec), "lidia verify FILE", 3, 100, (3,), (says,))
    yield Case(lidia.empty_members, "lidia verify FILE", 3, 60, (3,), ("the file is empty",))

    # Go's execution traces: many small generations, texts that every event repeats, lines without an end
    for make in (gotrace.generations, gotrace.empty_generations):
        for action in ("info FILE", "verify FILE", "events FILE -o OUT.csv", "anonymize FILE -o OUT",
                       "salvage FILE -o OUT", "pprof FILE -o OUT"):  # fmt: skip
            yield Case(make, f"trace {action}", 5, 100, ANY)
    many = partial(gotrace.generations, 20_000)
    yield Case(many, "trace info FILE", 4, 120, (0,), ("generations  20000",))
    cut = '"' + "x" * 4095 + "\\u2026 "
    make = partial(gotrace.repeated_text, 20)
    yield Case(make, "trace events FILE --format jsonl", 2, 100, (0,), (cut,), output=24 << 20)
    told = ("rows of text take more than 4096 times",)
    make = partial(gotrace.repeated_text, 2000, 4000)
    yield Case(make, "trace events FILE --format jsonl -o /dev/null", 5, 100, (3,), told)
    yield Case(gotrace.damage, "trace salvage FILE -o OUT", 4, 60, (3,))
    for line in (b"String id=1 data=" + b"x" * 5_000_000, b"GoStart dt=" + b"0" * 5_000_000, b"\n" * 5_000_000):
        yield Case(partial(gotrace.text, line), "trace wire FILE -o OUT", 3, 100, (0, 3))

    # Texts of /proc and of JIT compilers
    for name in procmap.TEXTS:
        for read in (procmap.mappings_of, procmap.entries_of_a_perf_map, procmap.names_of_a_kernel):
            yield Case(partial(procmap.text, name), read, 2, 200)


def command_of(words: str, folder: Path) -> list[str | Path]:
    out = str(folder / "out")
    paths = {"FILE": str(folder / "hostile"), "OUT": out, "OUT.csv": f"{out}.csv"}
    return ["whence", *(paths.get(word, word) for word in words.split())]


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_a_file_that_claims_much_is_read_in_bounds_or_refused(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(case.make())
    limits = {"seconds": case.seconds, "megabytes": case.megabytes, "name": str(case)}
    if isinstance(case.run, str):
        outcome = bounded(command_of(case.run, tmp_path), stdin=case.stdin, **limits)  # type: ignore[arg-type]
        code = outcome.code
    else:
        outcome = bounded(case.run, path, **limits)  # type: ignore[arg-type]
        code = 3 if outcome.error else 0
    assert code in case.codes, outcome.error
    assert len(outcome.out) <= case.output
    text = f"{outcome.answer} {outcome.error} {outcome.out.decode(errors='replace')}"
    assert [words for words in case.says if words not in text] == []


INTERRUPTED: list[tuple[Callable[[], bytes], str, float]] = [
    (partial(elf.big_text_of_short_names, 400_000), "symbols FILE", 0.5),
    (partial(elf.big_text_of_short_names, 3_000_000), "lidia create FILE -o OUT", 0.4),
    (partial(dwarf.much_debug_info, pack=False), "lidia create FILE -o OUT", 0.3),
    (partial(dwarf.much_debug_info, pack=True), "lidia create FILE -o OUT", 0.3),
    (lidia.many_ranges, "lidia dump FILE", 0.5),
    (gotrace.long_trace, "trace text FILE -o OUT", 0.1),
    (gotrace.long_trace, "trace info FILE", 0.1),
    (gotrace.long_trace, "trace verify FILE", 0.1),
    (gotrace.long_trace, "trace events FILE -o OUT.csv", 0.1),
    (gotrace.long_trace, "trace anonymize FILE -o OUT", 0.1),
]


@pytest.mark.parametrize(
    ("make", "words", "after"), INTERRUPTED, ids=[f"{described(make)}: {words}" for make, words, _ in INTERRUPTED]
)
def test_ctrl_c_ends_the_reading_of_a_large_file_and_leaves_nothing(
    make: Callable[[], bytes], words: str, after: float, tmp_path: Path
) -> None:
    path = tmp_path / "hostile"
    path.write_bytes(make())
    interrupted(command_of(words, tmp_path), after=after)
    assert [*tmp_path.iterdir()] == [path]
