"""The right to change the files of one build-id: an object that only one writer can create, with an owner and an end.

    locks/ID    {"owner": TEXT, "host": TEXT, "pid": N, "started": N, "until": SECONDS}

The owner renews its lease while it works. Who finds a lease takes it over when its end is past, or when its owner was a
process of this machine that is no more; `replace` lets only one of several do so. A lease that was taken over says that
its owner may have stopped anywhere: `Lease.taken_over`.

Clocks of machines differ: an end counts as past SKEW_SECONDS later. An owner that could not renew in time stops: each
write asks `check` first.
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
MARGIN_SECONDS = 10.0  # so long before its end a lease is no longer written under
SKEW_SECONDS = 30.0
LONGEST = 1 << 12  # bytes of a lease


class Busy(WhenceError):
    """Another writer is changing the files of this build-id."""

    code = "busy"


class Lease:
    """A lease that is held. A context manager; leaving it gives the lease back."""

    def __init__(self, objects: Objects, build_id: str, wait: float) -> None:
        self.build_id = build_id
        self.taken_over = False
        self._objects = objects
        self._key = lock_key(build_id)
        self._owner = os.urandom(16).hex()
        _held.add(self._owner)
        self._tag = ""
        self._end = 0.0  # by this machine's monotonic clock
        self._lock = threading.Lock()
        try:
            self._acquire(wait)
        except BaseException:
            _held.discard(self._owner)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _content(self) -> bytes:
        self._begun = time.monotonic()
        known = {"owner": self._owner, **me.facts, "until": time.time() + LEASE_SECONDS}
        return json.dumps(known).encode()

    def _acquire(self, wait: float) -> None:
        patience = time.monotonic() + wait
        while True:
            content = self._content()
            self._tag = self._objects.create(self._key, content)
            if not self._tag:
                found = self._objects.read(self._key, LONGEST)
                if found is None:
                    continue
                self._tag = self._take_over(*found)
            if self._tag:
                self._end = self._begun + LEASE_SECONDS
                return
            if time.monotonic() >= patience:
                raise Busy(f"another writer is changing {self.build_id}")
            time.sleep(random.uniform(0.01, 0.1))

    def _take_over(self, held: bytes, status: Stat) -> str:
        """The tag of the lease that is now ours, "" when the other one's still holds."""
        known = facts_of(held)
        if not is_over(known, status.modified):
            return ""
        tag = self._objects.replace(self._key, self._content(), status.tag)
        self.taken_over = bool(tag)
        return tag

    def keep(self) -> None:
        """Renew it from now on, until it is given back: what comes takes long."""
        _renewer.watch(self)

    def renew(self) -> None:
        """Move its end away from now, if it is still ours."""
        with suppress(OSError), self._lock:
            if not self._end:
                return
            tag = self._objects.replace(self._key, self._content(), self._tag)
            if tag:
                self._tag, self._end = tag, self._begun + LEASE_SECONDS
            else:
                self._end = 0.0  # somebody else's

    def check(self) -> None:
        """Raise Busy unless the lease is held for a while to come."""
        if time.monotonic() > self._end - MARGIN_SECONDS:
            raise Busy(f"the lease of {self.build_id} ended before its files were written; try again")

    def release(self) -> None:
        """Give it back. One that is about to end is left to end, for it may be somebody else's by now."""
        _renewer.forget(self)
        with self._lock:
            if time.monotonic() < self._end - MARGIN_SECONDS:
                self._end = 0.0
                with suppress(OSError):
                    self._objects.delete(self._key)
        _held.discard(self._owner)  # if it could not be removed, others of this process take it over


class _Renewer:
    """One thread that renews the leases of this process, while there are any to renew."""

    def __init__(self) -> None:
        self._leases: set[Lease] = set()
        self._lock = threading.Lock()
        self._runs = False

    def watch(self, lease: Lease) -> None:
        with self._lock:
            self._leases.add(lease)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, daemon=True).start()

    def forget(self, lease: Lease) -> None:
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
        """In a forked child, which has no such thread, and none of the leases."""
        self._leases, self._lock, self._runs = set(), threading.Lock(), False


_renewer = _Renewer()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renewer.reset)
_held: set[str] = set()
"""The owners of this process, by their names."""


def facts_of(content: bytes) -> dict[str, object]:
    """What a lease says; nothing when it can't be read."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_over(known: dict[str, object], modified: float) -> bool:
    """Whether a lease binds nobody any more."""
    until = known.get("until")
    facts = me.facts
    if known.get("host") == facts["host"]:
        if not is_alive(known.get("pid"), known.get("started")):
            return True
        if known.get("pid") == facts["pid"] and known.get("owner") not in _held:
            return True
    latest = modified + 2 * LEASE_SECONDS + SKEW_SECONDS
    if isinstance(until, bool) or not isinstance(until, (int, float)) or not 0 <= until <= latest:  # NaN, too
        until = modified + LEASE_SECONDS  # no store writes such an end
    return time.time() > until + SKEW_SECONDS


def start_of(pid: int) -> int:
    """When a process began, in ticks since the machine did; 0 when there is none, or nothing says when."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def is_alive(pid: object, started: object) -> bool:
    """Whether a process of this machine still runs; true when that can't be found out."""
    if not isinstance(pid, int) or not isinstance(started, int) or not started:
        return True
    return start_of(pid) == started


class _Me:
    """This process, as leases name it. Process ids of another namespace or another boot mean nothing here."""

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
        pid = os.getpid()
        return {"host": self._host, "pid": pid, "started": start_of(pid)}


me = _Me()
