"""Comparing a mapped path with the names of binaries, debug files and archives.

    /usr/bin/app              app, app.debug, app.lidia
    [kernel.kallsyms]_text    vmlinux, vmlinux-6.1.0.debug
    [xfs], .../xfs.ko.xz      xfs.ko; the kernel writes a dash as an underscore

Names are compared only if there is no build-id.

>>> same_name("/mine/app.debug", "/usr/bin/app"), same_name("xfs.ko", "[xfs]"), same_name("app", "/usr/bin/apple")
(True, True, False)
"""

from __future__ import annotations

import re

from whence.objects.zipped import name_in_zip

# Compiled on first use: most searches are by build-id
IMAGE = r"\[(?:guest\.)?kernel(?:\.\w+)*\](?P<symbol>_\w+)?|(?:.*/)?vmlinu[xz][^/]*"
MODULE = r"\[(?:guest\.kernel\.)?(?P<short>[\w-]+)\]|(?:.*/)?(?P<file>[^/]+?)\.ko(?:\.debug)?(?:\.(?:xz|zst|gz))?"
PACKED = (".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")  # endings of `perf archive` packages


def is_image(path: str) -> bool:
    """Return True if a mapped path is that of the kernel image."""
    return bool(re.fullmatch(IMAGE, path))


def module_of(path: str) -> str:
    """Return the name of a kernel module as the kernel writes it; "" if the path is not a module."""
    match = re.fullmatch(MODULE, path)
    return (match["short"] or match["file"]).replace("-", "_") if match else ""


def same_name(file: str, mapped: str) -> bool:
    """Return True if a file may be that of a mapped path, by its name."""
    name = name_in_zip(file).removesuffix(".lidia").removesuffix(".debug")
    if is_image(mapped) and name.startswith("vmlinux"):
        return True
    module = module_of(mapped)
    if module and name.endswith(".ko") and module_of(name) == module:
        return True
    return bool(name) and name == name_in_zip(mapped)
