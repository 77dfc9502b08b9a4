"""Debug info in a bucket of Parca, to be added to a store.

    [PREFIX/]debuginfo/ID/debuginfo      an object file with debug info, if it was uploaded as such
    [PREFIX/]debuginfo/ID/executable     the executable
    [PREFIX/]debuginfo/ID/sources        source files: a tar, usually compressed by zstd
    .../metadata, executable.metadata, sources.metadata
                                         JSON about each upload: state, hash and quality; missing for old uploads

ID is the build-id in hex. Only complete uploads are read: not those whose metadata say that they are still running, are
damaged, or not ELF files. Entries that Parca only knows from debuginfod have no objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from whence.store.names import is_id
from whence.store.packages import tar_members

if TYPE_CHECKING:
    from whence.store.objects import Objects

KEY = re.compile(r"(?:.*/)?([0-9a-f]{4,128})/((?:executable|sources)\.metadata|metadata|debuginfo|executable|sources)")
FOLDER = "debuginfo/"
METADATA = ".metadata"
METADATA_NAMES = ("metadata", "executable.metadata", "sources.metadata")
DEBUGINFO, SOURCES = "debuginfo", "sources"
METADATA_BYTES = 1 << 16
UPLOADED = ("STATE_UPLOADED", "METADATA_STATE_UPLOADED")
LOOKED_AT = 64  # entries of a folder, to find out if it is Parca's


class ParcaObject(NamedTuple):
    """An object of a bucket: its key, its build-id, "debuginfo", "executable" or "sources", and why it is not read."""

    key: str
    build_id: str
    kind: str
    fault: str = ""


def is_parca(objects: Objects) -> bool:
    """Return True if a folder or bucket has uploads with metadata, at its top or in `debuginfo/`."""
    for prefix in ("", FOLDER):
        for count, name in enumerate(objects.folders(prefix)):
            if count >= LOOKED_AT:
                break
            if is_id(name) and any(objects.head(f"{prefix}{name}/{word}") for word in METADATA_NAMES):
                return True
    return False


def parca_objects(objects: Objects) -> Iterator[ParcaObject]:
    """Yield the uploads of a bucket by build-id, the sources last. Raises OSError."""
    uploads: dict[str, dict[str, str]] = {}
    for entry in objects.list(""):
        match = KEY.fullmatch(entry.key)
        if match is not None and is_id(match[1]):
            uploads.setdefault(match[1], {})[match[2]] = entry.key
    for build_id, keys in sorted(uploads.items()):
        for kind in (DEBUGINFO, "executable", SOURCES):
            if kind in keys:
                about = keys.get("metadata" if kind == DEBUGINFO else kind + METADATA, "")
                yield ParcaObject(keys[kind], build_id, kind, fault_of(objects, about) if about else "")


def fault_of(objects: Objects, key: str) -> str:
    """Return why an upload is not read by its metadata, "" if it is complete. Raises OSError."""
    entry = objects.head(key)
    fields: Any = None
    if entry is None or entry.size <= METADATA_BYTES:
        try:
            read = objects.read(key, METADATA_BYTES)
        except PermissionError as error:
            return f"{key}: {error.strerror}"
        with suppress(ValueError, RecursionError):
            fields = json.loads(read[0]) if read is not None else {}
    if not isinstance(fields, dict):
        return f"{key} is not metadata of Parca"
    upload = fields.get("upload")
    state = upload.get("state", "") if isinstance(upload, dict) else fields.get("state", "")
    if state and state not in UPLOADED:
        return f"the upload is not complete: Parca's metadata have {str(state)[:100]}"
    quality = fields.get("quality")
    if isinstance(quality, dict) and quality.get("notValidElf") is True:
        return "not a valid ELF file by Parca's metadata"
    return ""


def source_files(file: BinaryIO, stored: int, paths: Iterable[str], limit: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of these paths in a tar, in its order, if they have at most `limit` bytes.

    The tar is read once; it may unpack to TIMES its stored bytes. Raises PackageError.
    """
    wanted = {path.lstrip("/"): path for path in paths}
    for info, content in tar_members(file, stored):
        path = wanted.pop(info.name.removeprefix("./").lstrip("/"), None)
        if path is not None and info.size <= limit:
            yield path, content.read(limit)
