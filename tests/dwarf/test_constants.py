"""The numbers of the DWARF standards: one definition, read by Python and kernels."""

import re
from pathlib import Path

from whence.dwarf.kernels import constants

ROOM = Path(__file__).parents[2] / "src" / "whence" / "dwarf"
DEFINITION = re.compile(r"^    (DW_\w+) = (0x[0-9A-F]+)$", re.MULTILINE)


def test_python_reads_the_numbers_that_kernels_read() -> None:
    written = {name: int(value, 16) for name, value in DEFINITION.findall((ROOM / "kernels/constants.pxd").read_text())}
    assert written == {name: value for name, value in vars(constants).items() if name.startswith("DW_")}
    assert written["DW_AT_GNU_addr_base"] == 0x2133


def test_a_number_means_one_thing_in_its_family() -> None:
    numbers = [
        (name.split("_")[1], value) for name, value in DEFINITION.findall((ROOM / "kernels/constants.pxd").read_text())
    ]
    assert len(numbers) == len(set(numbers)) > 100
