"""File names that stand for the same file: a mapped path and the name of a binary, a debug file or an archive of it.

    /usr/bin/app              app, app.debug, app.lidia
    [kernel.kallsyms]_text    vmlinux, vmlinux-6.1.0.debug
    [xfs], .../xfs.ko.xz      xfs.ko; to the kernel a dash is an underscore

Names decide only where a build-id is missing.

>>> same_name("/mine/app.debug", "/usr/bin/app"), same_name("xfs.ko", "[xfs]"), same_name("app", "/usr/bin/apple")
(True, True, False)
"""

from __future__ import annotations

import os
import re

# patterns are compiled when a path is first compared: most searches go by build-id
IMAGE = r"\[(?:guest\.)?kernel(?:\.\w+)*\](?P<symbol>_\w+)?|(?:.*/)?vmlinu[xz][^/]*"
MODULE = r"\[(?:guest\.kernel\.)?(?P<short>[\w-]+)\]|(?:.*/)?(?P<file>[^/]+?)\.ko(?:\.debug)?(?:\.(?:xz|zst|gz))?"


PACKED = (".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")  # endings of what `perf archive` makes


def is_image(path: str) -> bool:
    """Whether a mapped path is the kernel itself."""
    return bool(re.fullmatch(IMAGE, path))


def module_of(path: str) -> str:
    """The name of a kernel module as the kernel has it; "" for what is none."""
    found = re.fullmatch(MODULE, path)
    return (found["short"] or found["file"]).replace("-", "_") if found else ""


def same_name(file: str, mapped: str) -> bool:
    """Whether the name of a file is what the file of a mapped path is called."""
    name = os.path.basename(file).removesuffix(".lidia").removesuffix(".debug")
    if is_image(mapped) and name.startswith("vmlinux"):
        return True
    module = module_of(mapped)
    if module and name.endswith(".ko") and module_of(name) == module:
        return True
    return bool(name) and name == os.path.basename(mapped)
