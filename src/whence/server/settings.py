"""What a server is started with."""

from __future__ import annotations

import json
import os
from typing import Any

from whence._base.records import Record, field

SYMBOLIZE, SCAN, FORWARD, PROFILE = "symbolize", "scan", "forward", "profile"
"""What threads do: name addresses, read files that came, wait for the server that OTLP goes to, wait for the processes
that name profiles."""
FRESH_SECONDS, FRESH_SECONDS_FAR = 0.02, 5.0
"""So long what is known of a build-id is believed before the store is asked again: a folder, a bucket."""
ENVIRONMENT = "WHENCE_SERVE"  # how the settings reach worker processes


class RequestLimits(Record, frozen=True):
    """What one request may take; /limits shows them. Sizes in bytes, times in seconds.

    `parse_bytes` is the memory of a process that parses an upload or names a profile, `parse_seconds` its time;
    `uploads_at_once` and `profiles_at_once` say how many of each run at a time. `uploads_held` is the number and
    `uploads_bytes` the sum of the sizes of uploads that are being received or wait to be parsed.
    `bodies_bytes` are of all bodies in memory at a time, `stalled_seconds` how long a client may read nothing,
    `stop_seconds` how long requests have to end when the server does. `json_values` counts the lists, objects, members
    and items of a JSON body, `json_values_at_once` those of all JSON bodies that are decoded at a time (100 bytes of
    memory each), `build_ids` the distinct ones that a request names.
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
        return {name: getattr(self, name) for name in type(self)._fields}


class ServerSettings(Record, frozen=True):
    """The store's place; where names come from besides; limits; who may do what; where OTLP is forwarded to.

    `token_file` is "" where no token is asked for; `open_read` lets everyone read even then.
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
    uploads: bool = True
    limits: RequestLimits = field(default_factory=RequestLimits)

    def to_environment(self) -> None:
        """Leave the settings to worker processes."""
        values = {name: getattr(self, name) for name in type(self)._fields if name != "limits"}
        os.environ[ENVIRONMENT] = json.dumps({**values, "limits": self.limits.as_json()})

    @classmethod
    def from_environment(cls) -> ServerSettings:
        """What `to_environment` left. Raises KeyError where it left nothing."""
        values: dict[str, Any] = json.loads(os.environ[ENVIRONMENT])
        for name in ("debug_dirs", "upstreams", "upstream_allow"):
            values[name] = tuple(values[name])
        return cls(**{**values, "limits": RequestLimits(**values["limits"])})
