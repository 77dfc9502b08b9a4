"""The namers of this process, shared by the adapters."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from whence.columns import Namer
from whence.locator.locator import Locator
from whence.store import Store

Places = Mapping[str, Any]
"""Where worker processes find files: the parameters of whence.Locator as plain values, for instance
{"archive_dirs": ["/mnt/archives"], "cache": "/var/cache/whence"}, or `store` as for whence.columns.Namer."""

_lock = threading.Lock()
_namers: dict[str, Namer] = {}


def namer_of(places: Places | Locator | None, **options: Any) -> Namer:
    """Return a namer with these options. Equal arguments give the same namer, so its files stay open.

    >>> namer_of({"dirs": []}, leaf=True) is namer_of({"dirs": []}, leaf=True)
    True
    """
    if isinstance(places, Locator):
        return Namer(locator=places, **options)
    key = repr((sorted((places or {}).items()), sorted(options.items())))
    with _lock:
        namer = _namers.get(key)
        if namer is None:
            namer = _namers[key] = Namer(locator=locator_of(**(places or {})), **options)
        return namer


def locator_of(store: str | None = None, cache: str | None = None, **places: Any) -> Locator:
    """Return a Locator with these parameters, which reads from `store` (a folder or an address) if one is given."""
    if store is None:
        return Locator(cache=cache, **places)
    return Locator(cache=cache, sources=[Store(store, cache=cache).source("engine")], **places)
