"""Where a store is: a folder's path, or an address."""

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


def objects_at(place: str | os.PathLike[str] | Objects) -> Objects:
    """The objects of a place. Raises WrongUse for an address of no kind that is known, and where obstore is missing."""
    if not isinstance(place, (str, os.PathLike)):
        return place
    name = os.fspath(place)
    found = SCHEME.match(name)
    if found is None:
        if not name:
            raise WrongUse("a store is a folder or an address, not an empty text")
        return Folder(name)
    if found[1] == "file":
        return Folder(name.removeprefix("file://"))
    if found[1] not in BUCKETS:
        raise WrongUse(f"a store is a folder or {', '.join(f'{one}://' for one in BUCKETS)}, not {name!r}")
    return bucket_at(name)
