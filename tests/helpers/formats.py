"""Small programs of other formats than ELF, with an ID and a function each."""

from __future__ import annotations

from tests.forge import macho
from tests.forge.pe import CODE, DEBUG, PAGE, Section, Symbol, codeview, forge
from tests.forge.wasm import custom, module, names
from whence.objects.pe import layout

UUID = macho.UUID.hex()
GUID = "232221202524272628292a2b2c2d2e2f"
WASM_ID = "aabbccddeeff00112233445566778899"


def program(cpu: tuple[int, int] = macho.ARM64, uuid: bytes = macho.UUID) -> bytes:
    symbols = [macho.Symbol("_main", 0x100001000), macho.Symbol("_other", 0x100001080)]
    return macho.forge([macho.text()], symbols=symbols, cpu=cpu, uuid=uuid)


def windows() -> bytes:
    record = codeview(2 * PAGE, PAGE + 0x200, b"C:\\b\\a.pdb", age=0x1B)
    sections = [Section(".text", bytes(0x180), CODE), Section(".buildid", record, DEBUG)]
    return forge(sections, symbols=[Symbol("main", 0x10, 1)], directories={layout.DEBUG: (2 * PAGE, 28)})


def wasm() -> bytes:
    return module(custom("build_id", b"\x10" + bytes.fromhex(WASM_ID)), names((0, "first"), (1, "second")))
