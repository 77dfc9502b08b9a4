"""The namers of this process, shared by the adapters."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from os import PathLike
from typing import Any

from whence.columns import Namer
from whence.locator.coerce import plain_places, split_fields
from whence.locator.locator import Locator
from whence.store import Store

Places = Locator | Store | Mapping[str, Any] | str | PathLike[str]
"""Where names come from: the path or address of a store, a folder of archives or debug files, a Store, a Locator, or
keywords of whence.Locator as a mapping, for instance {"store": "s3://symbols", "cache": "/var/cache/whence"}."""

_lock = threading.Lock()
_namers: dict[str, Namer] = {}


def split_places(places: Places | None, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return where names come from, as values that can be sent to another process, and the options of a Namer.

    `options` may have keywords of both a Locator and a Namer.
    """
    fields, others = split_fields(options)
    return plain_places(places, fields), others


def namer_of(places: Places | None = None, **options: Any) -> Namer:
    """Return a namer with these options. Equal arguments give the same namer, so its files stay open.

    >>> namer_of({"debug_dirs": []}, leaf=True) is namer_of(debug_dirs=[], leaf=True)
    True
    """
    plain, options = split_places(places, options)
    if isinstance(plain, Locator):
        return Namer(plain, **options)
    key = repr((sorted(plain.items()), sorted(options.items())))
    with _lock:
        namer = _namers.get(key)
        if namer is None:
            namer = _namers[key] = Namer(plain, **options)
        return namer
