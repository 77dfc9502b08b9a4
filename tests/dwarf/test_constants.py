"""The numbers of the DWARF standards: one definition, read by Python and kernels."""

import re
from pathlib import Path

from whence.dwarf.kernels import constants

ROOM = Path(__file__).parents[2] / "src" / "whence" / "dwarf"
DEFINITION = re.compile(r"^    (DW_\w+) = (0x[0-9A-F]+)$", re.MULTILINE)
BARE_NUMBER = re.compile(r"[=!<>]=? (?:<u64>)?0x[0-9A-Fa-f]+\b")  # on the right of a comparison
NAMES_OF_FIELDS = "tag|name|form|language|content|opcode|kind|what|slot"
BARE_CODE = re.compile(rf"\b(?:{NAMES_OF_FIELDS}|\w+\[(?:TAG|KIND|LANGUAGE)\]) [=!]= [1-9]")
DECLARATION = re.compile(r"^ *(?:[A-Z]\w+, )*[A-Z]\w+ = ")


def sources() -> list[Path]:
    return [
        path for pattern in ("*.py", "*.pxd") for path in sorted(ROOM.rglob(pattern)) if path.name != "constants.pxd"
    ]


def test_python_reads_the_numbers_that_kernels_read() -> None:
    written = {name: int(value, 16) for name, value in DEFINITION.findall((ROOM / "kernels/constants.pxd").read_text())}
    assert written == {name: value for name, value in vars(constants).items() if name.startswith("DW_")}
    assert written["DW_AT_GNU_addr_base"] == 0x2133


def test_a_number_means_one_thing_in_its_family() -> None:
    numbers = [
        (name.split("_")[1], value) for name, value in DEFINITION.findall((ROOM / "kernels/constants.pxd").read_text())
    ]
    assert len(numbers) == len(set(numbers)) > 100


def test_no_line_compares_with_a_bare_number_of_the_standard() -> None:
    found = [
        f"{path.relative_to(ROOM)}:{number}: {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if not DECLARATION.match(line) and (BARE_NUMBER.search(line) or BARE_CODE.search(line))
    ]
    assert found == []
