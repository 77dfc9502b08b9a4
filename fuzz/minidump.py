"""Minidumps: streams, threads, modules, memory, annotations, and stacks."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.minidump import Dump, Module, Thread, context, everything, misc, rsds
from tests.helpers.minidumps import exercised
from whence._base.errors import WhenceError


def seeds() -> list[bytes]:
    modules = [Module(0x400000, 0x2000, "app.exe", rsds(order="big"))]
    threads = [Thread(7, context({"rip": 0x401234, "rsp": 0x7000}, order="big"), 0x7000, bytes(512))]
    big = Dump(modules, threads, misc=misc(1, order="big"), platform=2, order="big", padded=True)
    return [everything(), big.build()]


def target(data: bytes) -> None:
    with suppress(WhenceError):
        exercised(data)
