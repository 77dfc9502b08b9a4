"""Leases: the exclusive right to change the files of one build-id, which expires.

    locks/ID    {"owner": TEXT, "host": TEXT, "pid": N, "started": N, "until": SECONDS}

The owner renews its lease while it works. Another writer takes it over when it has expired, or when its owner was a
process of this machine that has ended; `replace` lets only one of several writers do so. The previous owner may have
stopped between any two writes: `Lease.taken_over`.

Clocks of machines differ: a lease expires SKEW_SECONDS after its end. An owner that could not renew in time stops: each
write calls `check` first.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from whence._base.errors import WhenceError
from whence._base.forks import cached_property
from whence.store.names import lock_key

if TYPE_CHECKING:
    from types import TracebackType

    from whence.store.objects import Objects, Stat

LEASE_SECONDS = 60.0
RENEW_SECONDS = 15.0
MARGIN_SECONDS = 10.0  # before the end, when no more writes are started
SKEW_SECONDS = 30.0
LONGEST = 1 << 12  # bytes of a lease


class Busy(WhenceError):
    """Another writer is changing the files of this build-id."""

    code = "busy"


class Lease:
    """A lease of a build-id. A context manager that releases the lease.

    `wait` is how long to wait for another writer, in seconds. Raises Busy, OSError.
    """

    def __init__(self, objects: Objects, build_id: str, wait: float) -> None:
        self.build_id = build_id
        self.taken_over = False
        self._objects = objects
        self._key = lock_key(build_id)
        self._owner = os.urandom(16).hex()
        _owners.add(self._owner)
        self._tag = ""
        self._end = 0.0  # by the monotonic clock
        self._lock = threading.Lock()
        try:
            self._acquire(wait)
        except BaseException:
            _owners.discard(self._owner)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _content(self) -> bytes:
        self._renewed = time.monotonic()
        lease = {"owner": self._owner, **identity.facts, "until": time.time() + LEASE_SECONDS}
        return json.dumps(lease).encode()

    def _acquire(self, wait: float) -> None:
        deadline = time.monotonic() + wait
        while True:
            content = self._content()
            self._tag = self._objects.create(self._key, content)
            if not self._tag:
                existing = self._objects.read(self._key, LONGEST)
                if existing is None:
                    continue
                self._tag = self._take_over(*existing)
            if self._tag:
                self._end = self._renewed + LEASE_SECONDS
                return
            if time.monotonic() >= deadline:
                raise Busy(f"another writer is changing {self.build_id}")
            time.sleep(random.uniform(0.01, 0.1))

    def _take_over(self, content: bytes, status: Stat) -> str:
        """Return the tag of the lease if it was taken over, "" if it has not expired."""
        if not is_over(facts_of(content), status.modified):
            return ""
        tag = self._objects.replace(self._key, self._content(), status.tag)
        self.taken_over = bool(tag)
        return tag

    def keep(self) -> None:
        """Renew the lease until it is released, for work that takes long."""
        _renewer.watch(self)

    def renew(self) -> None:
        """Postpone the end of the lease, if this process still owns it."""
        with suppress(OSError), self._lock:
            if not self._end:
                return
            tag = self._objects.replace(self._key, self._content(), self._tag)
            if tag:
                self._tag, self._end = tag, self._renewed + LEASE_SECONDS
            else:
                self._end = 0.0  # another writer owns it

    def check(self) -> None:
        """Raise Busy if the lease is about to expire."""
        if time.monotonic() > self._end - MARGIN_SECONDS:
            raise Busy(f"the lease of {self.build_id} expired before its files were written: try again")

    def release(self) -> None:
        """Release the lease. A lease that is about to expire is left, since another writer may own it."""
        _renewer.forget(self)
        with self._lock:
            if time.monotonic() < self._end - MARGIN_SECONDS:
                self._end = 0.0
                with suppress(OSError):
                    self._objects.delete(self._key)
        _owners.discard(self._owner)  # if it could not be removed, other threads of this process take it over


class _Renewer:
    """A thread that renews the leases of this process, as long as there are any."""

    def __init__(self) -> None:
        self._leases: set[Lease] = set()
        self._lock = threading.Lock()
        self._runs = False

    def watch(self, lease: Lease) -> None:
        """Renew a lease until `forget`."""
        with self._lock:
            self._leases.add(lease)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, daemon=True).start()

    def forget(self, lease: Lease) -> None:
        """Stop renewing a lease."""
        with self._lock:
            self._leases.discard(lease)

    def _run(self) -> None:
        while True:
            time.sleep(RENEW_SECONDS)
            with self._lock:
                leases = list(self._leases)
                self._runs = bool(leases)
            if not leases:
                return
            for lease in leases:
                lease.renew()

    def reset(self) -> None:
        """Start anew in a forked child, which has neither the thread nor the leases."""
        self._leases, self._lock, self._runs = set(), threading.Lock(), False


_renewer = _Renewer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renewer.reset)
_owners: set[str] = set()
"""The owners in this process."""


def facts_of(content: bytes) -> dict[str, object]:
    """Return the content of a lease; {} if it is malformed."""
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def is_over(lease: dict[str, object], modified: float) -> bool:
    """Return True if a lease has expired, or its owner has ended; `modified` is its time of change."""
    until = lease.get("until")
    facts = identity.facts
    if lease.get("host") == facts["host"]:
        if not is_alive(lease.get("pid"), lease.get("started")):
            return True
        if lease.get("pid") == facts["pid"] and lease.get("owner") not in _owners:
            return True
    latest = modified + 2 * LEASE_SECONDS + SKEW_SECONDS
    if isinstance(until, bool) or not isinstance(until, (int, float)) or not 0 <= until <= latest:  # also NaN
        until = modified + LEASE_SECONDS  # an end that no writer writes
    return time.time() > until + SKEW_SECONDS


def start_of(pid: int) -> int:
    """Return when a process started, in ticks since the boot; 0 if it does not exist or this is unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def is_alive(pid: object, started: object) -> bool:
    """Return True if a process of this machine runs, or if this is unknown."""
    if not isinstance(pid, int) or not isinstance(started, int) or not started:
        return True
    return start_of(pid) == started


class ProcessIdentity:
    """The identity of this process in leases: process ids are compared within one boot and PID namespace only."""

    @cached_property
    def _host(self) -> str:
        parts = [socket.gethostname()]
        with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
            parts.append(file.read().strip())
        with suppress(OSError):
            parts.append(os.readlink("/proc/self/ns/pid"))
        return " ".join(parts)

    @property
    def facts(self) -> dict[str, object]:
        """The members of a lease that identify the process."""
        pid = os.getpid()
        return {"host": self._host, "pid": pid, "started": start_of(pid)}


identity = ProcessIdentity()
