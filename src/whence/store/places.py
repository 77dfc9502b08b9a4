"""The location of a store: the path of a folder, or an address."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence.store.bucket import bucket_at
from whence.store.folder import Folder

if TYPE_CHECKING:
    from whence.store.objects import Objects

SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
BUCKETS = ("s3", "gs", "az", "memory", "http", "https")


def objects_at(location: str | os.PathLike[str] | Objects) -> Objects:
    """Open a folder or bucket. Raises WrongUse for an unknown kind of address, or if obstore is not installed."""
    if not isinstance(location, (str, os.PathLike)):
        return location
    name = os.fspath(location)
    match = SCHEME.match(name)
    if match is None:
        if not name:
            raise WrongUse("the path or address of the store is empty")
        return Folder(name)
    if match[1] == "file":
        return Folder(name.removeprefix("file://"))
    if match[1] not in BUCKETS:
        raise WrongUse(f"a store is a folder or {', '.join(f'{scheme}://' for scheme in BUCKETS)}, not {name!r}")
    return bucket_at(name)
