"""dSYM bundles: folders with the debug info of Mach-O files, made by dsymutil.

    app.dSYM/Contents/Resources/DWARF/app    beside the file, beside the bundle (.app, .framework) that it is in, and in
                                             debug folders
    DEBUG_DIR/ABCD/EF01/2345/...             the UUID's digits, as Apple's tools name links to such files

Names prove nothing: the caller compares UUIDs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from whence._base.errors import WhenceError
from whence.objects.opening import architectures, files_in_bundle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile

SUFFIX = ".dSYM"
BUNDLES = (".app", ".framework", ".bundle", ".xpc", ".appex", ".kext", ".plugin")
BUNDLES_SCANNED = 4096  # of a debug folder
DIGITS = 4  # of a UUID in each folder's name, and in the first of the name's groups


def bundled(file: ObjectFile, folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield path and description of files that may be the dSYM of a file; `folders` are the debug folders."""
    architecture = file.details["architecture"]
    path = file.path.removesuffix(f":{architecture}")
    bundles = [path + SUFFIX] if path else []
    parent = os.path.dirname(os.path.abspath(path)) if path else "/"
    while parent != os.path.dirname(parent):
        if parent.endswith(BUNDLES):
            bundles.append(parent + SUFFIX)
        parent = os.path.dirname(parent)
    for bundle in bundles:
        inside = files_in_bundle(bundle)
        if not inside and bundle is bundles[0]:
            yield os.path.join(bundle, "Contents", "Resources", "DWARF", os.path.basename(path)), "dSYM"
        for part in inside:
            yield slice_of(part, architecture), "dSYM"
    for folder in folders:
        if file.build_id:
            digits = file.build_id.upper()
            groups = [digits[start : start + DIGITS] for start in range(0, 5 * DIGITS, DIGITS)]
            yield slice_of(os.path.join(folder, *groups, digits[5 * DIGITS :]), architecture), "UUID"
        for bundle in bundles_in(folder):
            for part in files_in_bundle(bundle):
                yield slice_of(part, architecture), "dSYM in debug folder"


def bundles_in(folder: str) -> list[str]:
    """Return the dSYM bundles of a folder, sorted; those past a limit are left out."""
    bundles = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                bundles.append(entry.path)
                if len(bundles) == BUNDLES_SCANNED:
                    break
    return sorted(bundles)


def is_bundle(path: str) -> bool:
    """Return True if a path is that of a dSYM bundle."""
    return path.rstrip("/").endswith(SUFFIX) and os.path.isdir(path)


def slice_of(path: str, architecture: str) -> str:
    """Return the name of a slice if a file is fat, else its path."""
    with suppress(OSError, WhenceError):
        return f"{path}:{architecture}" if architectures(path) else path
    return path


def expanded(paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths with each dSYM bundle replaced by the files in it, and each fat file by its slices."""
    for path in paths:
        for inside in files_in_bundle(path) or [path]:
            names: tuple[str, ...] = ()
            with suppress(OSError, WhenceError):
                names = architectures(inside)
            yield from [f"{inside}:{name}" for name in names] or [inside]
