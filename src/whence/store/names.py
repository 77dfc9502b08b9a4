"""The names of a store's objects. Every name is made here, from ids that are checked first.

    whence-store.json                       marks a store, with its version
    buildid/ID/debuginfo, executable        the files, named as in debuginfod's addresses (with .zst: compressed)
    buildid/ID/lidia.gz                     the archive made of them (earlier versions: lidia, not compressed)
    buildid/ID/gsym.gz, sym.gz              the same names as GSYM and Breakpad symbol file, on request
    buildid/ID/meta.json                    the description of the files: size, hash, quality, date, origin
    debugid/DEBUGID                         a text: the build-id of this debug id (Breakpad's, Mozilla's)
    codeid/CODEID                           a text: the build-id of the PE file of this code id
    sources/ID.zip                          source files that the debug info names
    locks/ID                                the lease of the writer that is changing this build-id
    index/base.json, index/log/NAME.json    the rows of `whence store ls`; can be made again from the rest
    wanted/ID.json                          requests for a build-id that is missing
    used/ID                                 its time of change is when the build-id was used last
    announced/ID.json                       an upload that was announced and has not ended
    symbolizer/TENANT/ID                    archives where Pyroscope looks for them
    .build-id/ab/cdef.debug                 debug files where gdb looks for them

>>> file_key("ab12", "debuginfo")
'buildid/ab12/debuginfo'
>>> checked_id("../../etc/passwd")
Traceback (most recent call last):
whence._base.errors.WrongUse: a build-id is 1 to 64 bytes in lowercase hex, not '../../etc/passwd'
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from whence._base.errors import WrongUse
from whence.locate.search import FileKind

ID_BYTES = 64
HEX = b"0123456789abcdef"
ID = re.compile(rf"(?:[0-9a-f]{{2}}){{1,{ID_BYTES}}}")
TENANT = re.compile(r"[0-9A-Za-z!_*'().-]{1,150}")  # valid in Grafana's databases
DEBUG_ID = re.compile(r"[0-9A-F]{32}[0-9a-fA-F]{1,8}")
TIME_DIGITS = 8
CODE_ID = re.compile(r"[0-9A-F]{8}[0-9a-f]{1,8}")  # time and size of a PE file

ARCHIVE, DEBUGINFO, EXECUTABLE = FileKind.ARCHIVE, FileKind.DEBUGINFO, FileKind.EXECUTABLE
ELF_KINDS = (DEBUGINFO, EXECUTABLE)
SYMBOLS = (FileKind.GSYM, FileKind.BREAKPAD)
KINDS = (DEBUGINFO, EXECUTABLE, ARCHIVE, *SYMBOLS)
PACKED, GZIPPED = ".zst", ".gz"  # object files; archives and symbol files

MARKER = "whence-store.json"
FILES, DEBUG_IDS, CODE_IDS, SOURCES = "buildid/", "debugid/", "codeid/", "sources/"
LOCKS, WANTED, USED, ANNOUNCED = "locks/", "wanted/", "used/", "announced/"
INDEX, LOG = "index/base.json", "index/log/"
SYMBOLIZER, GDB = "symbolizer/", ".build-id/"


def is_id(build_id: str) -> bool:
    """Return True if a text is a build-id: 1 to 64 bytes in lowercase hex."""
    return ID.fullmatch(build_id) is not None


def are_ids(build_ids: Sequence[str]) -> bool:
    """Return True if all texts are build-ids."""
    if any(size % 2 or not 0 < size <= 2 * ID_BYTES for size in set(map(len, build_ids))):
        return False
    return not "".join(build_ids).encode("utf-8", "surrogatepass").translate(None, HEX)


def checked_id(build_id: str) -> str:
    """Return a build-id. Raises WrongUse if it is malformed."""
    if not is_id(build_id):
        raise WrongUse(f"a build-id is 1 to {ID_BYTES} bytes in lowercase hex, not {build_id[:200]!r}")
    return build_id


def file_key(build_id: str, kind: str, packed: bool = False) -> str:
    """Return the key of a file of a build-id. Raises WrongUse."""
    if kind not in KINDS:
        raise WrongUse(f"the kind of a file is {', '.join(KINDS[:-1])} or {KINDS[-1]}, not {kind[:200]!r}")
    suffix = PACKED if kind in ELF_KINDS else GZIPPED
    return f"{FILES}{checked_id(build_id)}/{kind}{suffix if packed else ''}"


def is_packed(key: str) -> bool:
    """Return True if the object of a file is compressed."""
    return key.endswith((PACKED, GZIPPED))


def meta_key(build_id: str) -> str:
    """Return the key of the description of a build-id. Raises WrongUse."""
    return f"{FILES}{checked_id(build_id)}/meta.json"


def folder_key(build_id: str) -> str:
    """Return the prefix of the keys of all files of a build-id. Raises WrongUse."""
    return f"{FILES}{checked_id(build_id)}/"


def lock_key(build_id: str) -> str:
    """Return the key of the lease of a build-id. Raises WrongUse."""
    return LOCKS + checked_id(build_id)


def wanted_key(build_id: str) -> str:
    """Return the key of the requests for a missing build-id. Raises WrongUse."""
    return f"{WANTED}{checked_id(build_id)}.json"


def used_key(build_id: str) -> str:
    """Return the key of the object that records the last use of a build-id. Raises WrongUse."""
    return USED + checked_id(build_id)


def announced_key(build_id: str) -> str:
    """Return the key of the announced upload of a build-id. Raises WrongUse."""
    return f"{ANNOUNCED}{checked_id(build_id)}.json"


def sources_key(build_id: str) -> str:
    """Return the key of the bundle of sources of a build-id. Raises WrongUse."""
    return f"{SOURCES}{checked_id(build_id)}.zip"


def debug_id_key(debug_id: str) -> str:
    """Return the key of the object that maps a debug id to its build-id. Raises WrongUse."""
    if not DEBUG_ID.fullmatch(debug_id):
        raise WrongUse(f"a debug id is 32 uppercase hex digits and an age, not {debug_id[:200]!r}")
    return DEBUG_IDS + debug_id


def code_id_of(text: str) -> str:
    """Return the code id of a PE file, given in any spelling, as stores have it; "" for another text.

    >>> code_id_of("6b04a9e25000"), code_id_of("libc.so.6")
    ('6B04A9E25000', '')
    """
    code_id = text[:TIME_DIGITS].upper() + text[TIME_DIGITS:].lower()
    return code_id if CODE_ID.fullmatch(code_id) else ""


def code_id_key(code_id: str) -> str:
    """Return the key of the object that maps the code id of a PE file to its build-id. Raises WrongUse."""
    if not CODE_ID.fullmatch(code_id):
        raise WrongUse(f"a code id is the time and the size of a PE file in hex, not {code_id[:200]!r}")
    return CODE_IDS + code_id


def is_tenant(tenant: str) -> bool:
    """Return True if a text is a valid name of a tenant."""
    return TENANT.fullmatch(tenant) is not None and tenant not in (".", "..")


def symbolizer_key(tenant: str, build_id: str) -> str:
    """Return the key where Pyroscope looks for the archive of a build-id. Raises WrongUse."""
    if not is_tenant(tenant):
        raise WrongUse(f"a tenant is 1 to 150 letters, digits and characters of !_*'().-, not {tenant[:200]!r}")
    return f"{SYMBOLIZER}{tenant}/{checked_id(build_id)}"


def gdb_key(build_id: str) -> str:
    """Return the key where gdb looks for the debug file of a build-id. Raises WrongUse for a single byte."""
    if len(checked_id(build_id)) < 4:
        raise WrongUse(f"gdb's layout needs a build-id of at least two bytes, not {build_id}")
    return f"{GDB}{build_id[:2]}/{build_id[2:]}.debug"
