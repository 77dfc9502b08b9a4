"""The classes of faults that this year's advisories about binutils and elfutils describe, one test each.

Every command that reads object files runs over a file of the class, in a process with bounds of time and memory. No
signal may end it, no exception may be unexpected, and the healthy function of the file keeps its name. whence reads
neither XCOFF nor `.got` for printing: the tests have the same fault in the formats that it reads.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import bounded
from tests.hostile.inputs import advisories
from whence.cli.main import main

SECONDS, MEGABYTES = 5, 300
COMMANDS = (
    "symbols FILE", "symbols --no-demangle --json FILE", "build-id FILE", "dwarf FILE", "dwarf FILE --unit 0",
    "explain FILE", "explain FILE 0x1000", "addr FILE 0x1004 0x8000", "lidia create FILE -o OUT",
    "convert FILE -o OUT.gsym",
)  # fmt: skip

# class of fault: advisories, and a file of the class
CLASSES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "a relocation's type, symbol or place is out of range": (
        "CVE-2026-3441, CVE-2026-3442, CVE-2026-4647 (binutils)", advisories.relocations_out_of_range,
    ),
    "a relocation of a COFF file is out of range": (
        "CVE-2026-6846 (binutils)", advisories.relocations_of_an_object_file_for_windows,
    ),
    "relocations refer to a null section": ("CVE-2025-69649 (binutils)", advisories.relocations_of_missing_sections),
    "relocations end early": ("CVE-2025-69650, CVE-2025-69651 (binutils)", advisories.cut_relocations),
    "a unit has an address size that does not exist": (
        "CVE-2025-69645, CVE-2025-69652 (binutils)", advisories.unit_sizes,
    ),
    "a unit has a reserved length": ("CVE-2025-69645 (binutils)", advisories.reserved_lengths),
    "range lists have no end": (
        "CVE-2025-69646, CVE-2025-69647, CVE-2025-69648 (binutils)", advisories.range_lists_without_an_end,
    ),
    "headers count what the file has no bytes for": (
        "CVE-2026-6844, CVE-2026-6845 (binutils)", advisories.counts_without_bytes,
    ),
    "symbols have no strings": (
        "CVE-2026-6844 (binutils), CVE-2025-1371 (elfutils)", advisories.symbols_without_names,
    ),
    "a name is outside its strings": ("CVE-2025-1365 (elfutils)", advisories.names_outside_their_strings),
    "strings have a size and no bytes": ("CVE-2025-1376 (elfutils)", advisories.strings_without_bytes),
    "section indexes of symbols are missing": ("CVE-2025-1377 (elfutils)", advisories.short_section_indexes),
    "a compressed section has another size": ("CVE-2025-1372 (elfutils)", advisories.sizes_of_compressed_sections),
    "abbreviations are damaged": ("CVE-2025-1352 (elfutils)", advisories.damaged_abbreviations),
    "a linkage name nests too deep": ("CVE-2025-66861 to CVE-2025-66866 (binutils)", advisories.nested_names),
}  # fmt: skip
# of object files that are not linked: code has no addresses yet
WITHOUT_ADDRESSES = {name for name in CLASSES if name.startswith(("a relocation", "relocations"))}


def outcomes(path: Path) -> dict[str, tuple[int, str, str]]:
    """Run every command; return exit code, stdout and stderr by command."""
    result = {}
    for command in COMMANDS:
        words = [word.replace("FILE", str(path)).replace("OUT", str(path.with_name("out"))) for word in command.split()]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        result[command] = code, out.getvalue(), err.getvalue()
    return result


def test_every_class_names_its_advisories() -> None:
    assert all(text.startswith("CVE-20") for text, _ in CLASSES.values())


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_advisories_is_an_error_or_costs_one_part(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CLASSES[name][1]())
    done = bounded(outcomes, tmp_path / "file", seconds=SECONDS, megabytes=MEGABYTES, name=name)
    assert not done.error, done.error
    for command, (code, _, err) in done.answer.items():
        assert code in (0, 1, 2, 3), f"{command}: {code}"
        assert "Traceback" not in err, f"{command}: {err}"
    assert "main" in done.answer["symbols FILE"][1], done.answer["symbols FILE"]
    if name not in WITHOUT_ADDRESSES:
        assert {"main", "found"} & {*done.answer["explain FILE 0x1000"][1].split()}, done.answer["explain FILE 0x1000"]
