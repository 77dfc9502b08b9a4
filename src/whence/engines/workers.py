"""What the adapters share: the namer of this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from whence.columns import Namer
from whence.locator.locator import Locator

Places = Mapping[str, Any]
"""Where names come from: the parameters of whence.Locator as plain values, for processes that make their own, for
instance {"archive_dirs": ["/mnt/archives"], "cache": "/var/cache/whence"}; and `store`, as whence.columns.Namer has
it."""

_lock = threading.Lock()
_namers: dict[str, Namer] = {}


def namer_of(places: Places | Locator | None, **options: Any) -> Namer:
    """A namer with these options; the same for the same places within a process, so that what is open stays open."""
    if isinstance(places, Locator):
        return Namer(locator=places, **options)
    key = repr((sorted((places or {}).items()), sorted(options.items())))
    with _lock:
        found = _namers.get(key)
        if found is None:
            found = _namers[key] = Namer(locator=locator_of(**(places or {})), **options)
        return found


def locator_of(store: str | None = None, cache: str | None = None, **places: Any) -> Locator:
    """The Locator of these places."""
    if store is None:
        return Locator(cache=cache, **places)
    from whence.store import Store

    return Locator(cache=cache, sources=[Store(store, cache=cache).source("engine")], **places)
