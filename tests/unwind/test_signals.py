"""Signals of cores by name, and what struct siginfo says of them."""

from __future__ import annotations

import signal
import struct

import pytest

from whence.dumps.signals import Signal, read_signal

PID = 4242


def siginfo(number: int, code: int, field: int) -> bytes:
    """Return the start of struct siginfo on 64-bit machines: number, errno, code, then the union."""
    return struct.pack("<iii4xQ", number, 0, code, field)


@pytest.mark.parametrize(("code", "sender"), [(0, PID), (-1, PID), (-3, PID), (-6, PID), (-2, None), (-4, None)])
def test_the_sender_is_reported_if_siginfo_has_a_process(code: int, sender: int | None) -> None:
    """Signals of timers (-2) and asynchronous input (-4) have an id or a value in that field."""
    result = read_signal(signal.SIGUSR1, siginfo(signal.SIGUSR1, code, PID), 64, "little")
    cause = f"sent by process {sender}" if sender else ""
    assert result == Signal(signal.SIGUSR1, "SIGUSR1", cause, None, sender)


def test_an_address_is_reported_with_its_cause() -> None:
    result = read_signal(signal.SIGSEGV, siginfo(signal.SIGSEGV, 1, 0x1234), 64, "little")
    assert str(result) == "SIGSEGV, address 0x1234 not mapped"
    assert result.address == 0x1234


def test_bytes_of_another_signal_say_nothing() -> None:
    assert read_signal(signal.SIGABRT, siginfo(signal.SIGSEGV, 1, 0x1234), 64, "little") == Signal(6, "SIGABRT")
    assert read_signal(signal.SIGABRT, b"", 64, "little") == Signal(6, "SIGABRT")
