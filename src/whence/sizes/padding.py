"""Instructions that compilers and linkers put between functions.

Intel SDM, volume 2, NOP (recommended multi-byte sequences), INT3, and the LEA forms of 32-bit gas; Arm ARM, NOP and UDF
#0; RISC-V ISA manual, NOP and C.NOP.
"""

from __future__ import annotations

import re

from whence.objects import machines

X86 = rb"""(?>(?:
    \xcc | \x90 | \x00                                                    # int3, nop
  | [\x66\x2e]*+ \x0f\x1f (?: \x00 | \x40. | \x44.. | \x80.{4} | \x84.{5} )   # nop [...]
  | \x66++ \x90
  | \x8d (?: \x76\x00 | \x74\x26\x00 | \xb6.{4} | \xb4\x26.{4} )          # lea esi, [esi+0]
)*)"""
ZEROS = rb"\x00*+"
ARM = rb"(?>(?:\x00\xf0\x20\xe3|\x00\x00\xa0\xe1|\x00\xbf|\xc0\x46|\x00)*)"

FILL: dict[int, bytes] = {
    machines.EM_386: X86,
    machines.EM_X86_64: X86,
    machines.EM_AARCH64: rb"(?>(?:\x1f\x20\x03\xd5|\x00)*)",
    machines.EM_ARM: ARM,
    machines.EM_RISCV: rb"(?>(?:\x13\x00\x00\x00|\x01\x00|\x00)*)",
}


def padding_size(code: memoryview, machine: int) -> int:
    """Return how many bytes at the start of some code are padding.

    >>> padding_size(memoryview(bytes.fromhex("660f1f440000 90 c3")), machines.EM_X86_64)
    7
    """
    match = re.compile(FILL.get(machine, ZEROS), re.DOTALL | re.VERBOSE).match(code)
    return match.end() if match is not None else 0
