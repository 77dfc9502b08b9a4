"""The identities of object files, and how tools spell them.

    build-id    what the linker stamps into a file, in lowercase hex: GNU's build-id, Mach-O's UUID, the GUID of a PE
                file's CodeView record, WebAssembly's build_id
    debug id    a GUID and an age, which name debug info: Breakpad and Mozilla write 38C16FE171949824DD9ED272A0C8C0F90,
                Sentry 38c16fe1-7194-9824-dd9e-d272a0c8c0f9, and both append the age (Sentry only if it is not 0)
    code id     what names the program itself: the build-id, or time and size of a PE file, such as 6b04a9e25000

Only PE files have another age than 0. A GUID is written as Microsoft prints it: the first three fields of an ELF file's
build-id are turned round, those of a UUID are not.
"""

from __future__ import annotations

from whence._base.records import NamedTuple

GUID_BYTES = 16
GUID_DIGITS = 2 * GUID_BYTES
NO_GUID = "0" * GUID_DIGITS
DIGITS = "0123456789abcdefABCDEF"
UUID_SIZE = 36  # characters, with dashes
AGE_DIGITS = 8


class DebugId(NamedTuple):
    """A GUID in 32 lowercase hex digits, "" if the file has none, and an age.

    >>> identity = DebugId.parse("5D3DAC6E1C1DDC8F4C4C44205044422E1")
    >>> identity.uuid
    '5D3DAC6E-1C1D-DC8F-4C4C-44205044422E'
    >>> identity.breakpad, identity.sentry
    ('5D3DAC6E1C1DDC8F4C4C44205044422E1', '5d3dac6e-1c1d-dc8f-4c4c-44205044422e-1')
    """

    guid: str = ""
    age: int = 0

    def __bool__(self) -> bool:
        """Return True unless the GUID is missing or all zeros, which must match no file."""
        return self.guid not in ("", NO_GUID)

    @property
    def breakpad(self) -> str:
        """As Breakpad, Mozilla and Microsoft's symbol servers write it; zeros if it is missing."""
        return f"{(self.guid or NO_GUID).upper()}{self.age:x}"

    @property
    def sentry(self) -> str:
        """As Sentry and symbolic write it; zeros if it is missing."""
        return dashed(self.guid or NO_GUID) + (f"-{self.age:x}" if self.age else "")

    @property
    def uuid(self) -> str:
        """The GUID as Apple's tools print UUIDs; "" if it is missing."""
        return dashed(self.guid).upper() if self.guid else ""

    @classmethod
    def parse(cls, text: str) -> DebugId:
        """Return the debug id that a text in any spelling is; an empty one for other texts.

        >>> DebugId.parse("38c16fe1-7194-9824-dd9e-d272a0c8c0f9")
        DebugId(guid='38c16fe171949824dd9ed272a0c8c0f9', age=0)
        >>> DebugId.parse("libc.so.6")
        DebugId(guid='', age=0)
        """
        if has_dashes(text):
            guid, rest = text[:UUID_SIZE].replace("-", ""), text[UUID_SIZE:].removeprefix("-")
        else:
            guid, rest = text[:GUID_DIGITS], text[GUID_DIGITS:]
        if len(guid) != GUID_DIGITS or len(rest) > AGE_DIGITS or not is_hex(guid) or not is_hex(rest or "0"):
            return NO_DEBUG_ID
        return cls(guid.lower(), int(rest or "0", 16))

    @classmethod
    def of_build_id(cls, build_id: str, *, little_endian: bool = True) -> DebugId:
        """Return the debug id of an ELF file: the first 16 bytes of its build-id as a GUID.

        Zeros follow a shorter build-id; a text that is not in hex, such as Go's build ID, has no debug id.

        >>> DebugId.of_build_id("e16fc13894712498dd9ed272a0c8c0f9850a94da").breakpad
        '38C16FE171949824DD9ED272A0C8C0F90'
        """
        if len(build_id) % 2 or not is_hex(build_id):
            return NO_DEBUG_ID
        raw = bytes.fromhex(build_id)[:GUID_BYTES].ljust(GUID_BYTES, b"\0")
        return cls((turned(raw) if little_endian else raw).hex())

    @property
    def start_of_build_id(self) -> str:
        """The first 16 bytes of the build-id that a little-endian ELF file with this debug id has; "" without one.

        >>> DebugId.parse("38C16FE171949824DD9ED272A0C8C0F90").start_of_build_id
        'e16fc13894712498dd9ed272a0c8c0f9'
        """
        return turned(bytes.fromhex(self.guid)).hex() if self else ""


NO_DEBUG_ID = DebugId()


def is_hex(text: str) -> bool:
    """Return True if a text is one or more hex digits."""
    return bool(text) and not text.strip(DIGITS)


def has_dashes(text: str) -> bool:
    """Return True if the dashes of a UUID are in their places."""
    return text[8:24:5] == "----"


def turned(raw: bytes) -> bytes:
    """Return 16 bytes with the first three fields of the GUID in the other byte order."""
    return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]


def dashed(guid: str) -> str:
    """Return 32 hex digits in the groups of a UUID.

    >>> dashed("00112233445566778899aabbccddeeff")
    '00112233-4455-6677-8899-aabbccddeeff'
    """
    return "-".join((guid[:8], guid[8:12], guid[12:16], guid[16:20], guid[20:]))


def pe_code_id(time: int, image_size: int) -> str:
    """Return the code id of a PE file, by which Microsoft's symbol servers name it.

    >>> pe_code_id(0x6B04A9E2, 0x5000)
    '6B04A9E25000'
    """
    return f"{time:08X}{image_size:x}"


def same_id(text: str) -> str:
    """Return an ID that a person gave, in any spelling, as files have their build-ids: lowercase hex without dashes.

    Other texts, such as Go's build IDs, are unchanged.

    >>> same_id("5D3DAC6E-1C1D-DC8F-4C4C-44205044422E")
    '5d3dac6e1c1ddc8f4c4c44205044422e'
    """
    joined = text.replace("-", "") if has_dashes(text) and len(text) == UUID_SIZE else text
    return joined.lower() if is_hex(joined) else text


class WindowsModule(NamedTuple):
    """The names by which symbol servers have a Windows program and its PDB file.

    `program` and `pdb` are names of files, `code_id` the program's time stamp and size, `debug_id` GUID and age.
    """

    program: str
    code_id: str
    pdb: str
    debug_id: DebugId
