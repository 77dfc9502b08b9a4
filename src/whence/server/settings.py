"""The settings of a server."""

from __future__ import annotations

import json
import os
from typing import Any

from whence._base.records import Record, field

SYMBOLIZE, SCAN, FORWARD, PROFILE = "symbolize", "scan", "forward", "profile"
"""The roles of threads: look up addresses, parse uploads, wait for the OTLP backend, wait for processes that name
profiles."""
FRESH_SECONDS, FRESH_SECONDS_FAR = 0.02, 5.0
"""How long cached data about a build-id is used before the store is checked: in a folder, in a bucket."""
ENVIRONMENT = "WHENCE_SERVE"  # passes the settings to worker processes


class RequestLimits(Record, frozen=True):
    """The limits of requests, as /limits returns them. Sizes are in bytes, times in seconds.

    `parse_bytes` and `parse_seconds` limit the memory and time of a process that parses an upload or names a profile;
    `uploads_at_once` and `profiles_at_once` limit the number of such processes. `uploads_held` is the number and
    `uploads_bytes` the total size of uploads that are being received or wait to be parsed. `bodies_bytes` is the total
    size of the bodies in memory. A client may stop reading for `stalled_seconds`; requests in progress may continue for
    `stop_seconds` after the server was stopped. `json_values` counts the lists, objects, members and items of a JSON
    body, `json_values_at_once` those of all JSON bodies in memory (100 bytes each). `build_ids` limits the distinct
    build-ids of a request.
    """

    upload_bytes: int = 4 << 30
    body_bytes: int = 64 << 20
    json_bytes: int = 32 << 20
    bodies_bytes: int = 256 << 20
    body_seconds: float = 30.0
    upload_seconds: float = 600.0
    seconds: float = 60.0
    header_seconds: float = 8.0
    header_bytes: int = 1 << 16
    stalled_seconds: float = 60.0
    stop_seconds: float = 30.0
    parse_bytes: int = 2 << 30
    parse_seconds: float = 50.0
    symbolicate_jobs: int = 10
    frames: int = 1_000_000
    addresses: int = 1_000_000
    build_ids: int = 10_000
    json_values: int = 4_000_000
    json_values_at_once: int = 8_000_000
    answer_bytes: int = 256 << 20
    at_once: int = 16
    uploads_at_once: int = 4
    uploads_held: int = 64
    uploads_bytes: int = 16 << 30
    profiles_at_once: int = 4
    open_archives: int = 64
    forwarders: int = 8

    def as_json(self) -> dict[str, object]:
        """Return the limits as JSON."""
        return {name: getattr(self, name) for name in type(self)._fields}


class ServerSettings(Record, frozen=True):
    """The settings of a server.

    `store` is a folder or an address, `cache` a folder for fetched files. `debug_dirs` and `upstreams` are further
    sources of files. `forward` is the address of the OTLP backend. `token_file` is "" if no tokens are required; with
    `open_read` all clients may read without a token. `also` are the kinds of symbol files that are made of uploads.
    """

    store: str
    cache: str = ""
    cache_bytes: int = 4 << 30
    debug_dirs: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    upstream_allow: tuple[str, ...] = ("*",)
    forward: str = ""
    token_file: str = ""
    open_read: bool = True
    also: tuple[str, ...] = ()
    uploads: bool = True
    limits: RequestLimits = field(default_factory=RequestLimits)

    def to_environment(self) -> None:
        """Store the settings in the environment, for worker processes."""
        values = {name: getattr(self, name) for name in type(self)._fields if name != "limits"}
        os.environ[ENVIRONMENT] = json.dumps({**values, "limits": self.limits.as_json()})

    @classmethod
    def from_environment(cls) -> ServerSettings:
        """Return the settings stored by `to_environment`. Raises KeyError if they are missing."""
        values: dict[str, Any] = json.loads(os.environ[ENVIRONMENT])
        for name in ("debug_dirs", "upstreams", "upstream_allow", "also"):
            values[name] = tuple(values[name])
        return cls(**{**values, "limits": RequestLimits(**values["limits"])})
