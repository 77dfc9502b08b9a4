"""Names of signals, and the cause of a signal by struct siginfo (sigaction(2))."""

from __future__ import annotations

import signal as numbers
from typing import NamedTuple

from whence._base.window import ByteOrder

SENT_BY_KERNEL = 0x80  # si_code SI_KERNEL, for example for a non-canonical address
SENT_BY_PROCESS = {0, -1, -3, -6}  # SI_USER, SI_QUEUE, SI_MESGQ, SI_TKILL; others have no pid
ADDRESS_SIGNALS = {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"}
FIELDS_OFFSET = {64: 16, 32: 12}  # of the union: an address, or a pid and a uid

# by signal and si_code
CAUSES = {
    ("SIGSEGV", 1): "address {address:#x} not mapped",
    ("SIGSEGV", 2): "no permission to access address {address:#x}",
    ("SIGSEGV", 3): "address {address:#x} failed a bounds check",
    ("SIGSEGV", 4): "address {address:#x} is protected by a key",
    ("SIGBUS", 1): "address {address:#x} is not aligned",
    ("SIGBUS", 2): "address {address:#x} has no physical memory",
    ("SIGBUS", 3): "address {address:#x}: the hardware reports an error",
    ("SIGFPE", 1): "integer division by zero at {address:#x}",
    ("SIGFPE", 2): "integer overflow at {address:#x}",
    ("SIGFPE", 3): "floating-point division by zero at {address:#x}",
    ("SIGFPE", 4): "floating-point overflow at {address:#x}",
    ("SIGFPE", 5): "floating-point underflow at {address:#x}",
    ("SIGFPE", 6): "inexact floating-point result at {address:#x}",
    ("SIGFPE", 7): "invalid floating-point operation at {address:#x}",
    ("SIGILL", 1): "illegal instruction at {address:#x}",
    ("SIGILL", 2): "illegal operand at {address:#x}",
    ("SIGILL", 5): "privileged instruction at {address:#x}",
    ("SIGTRAP", 1): "breakpoint at {address:#x}",
    ("SIGTRAP", 2): "single step at {address:#x}",
}


class Signal(NamedTuple):
    """A signal that a thread received.

    `cause` is text for people, `address` the faulting address, `sender` the pid of the sending process; None if
    unknown.
    """

    number: int
    name: str
    cause: str = ""
    address: int | None = None
    sender: int | None = None

    def __str__(self) -> str:
        return f"{self.name}, {self.cause}" if self.cause else self.name


def signal_name(number: int) -> str:
    """Return Linux's name of a signal, as x86 and ARM number them.

    >>> signal_name(11), signal_name(35)
    ('SIGSEGV', 'SIGRTMIN+1')
    """
    try:
        return numbers.Signals(number).name
    except ValueError:
        if numbers.SIGRTMIN < number < numbers.SIGRTMAX:
            return f"SIGRTMIN+{number - numbers.SIGRTMIN}"
        return f"signal {number}"


def read_signal(number: int, info: bytes, bits: int, order: ByteOrder) -> Signal:
    """Return the signal of NT_PRSTATUS with its cause by the bytes of NT_SIGINFO, which may be empty."""
    name = signal_name(number)
    offset, size = FIELDS_OFFSET[bits], bits // 8
    if len(info) < offset + size or int.from_bytes(info[:4], order) != number:
        return Signal(number, name)
    code = int.from_bytes(info[8:12], order, signed=True)
    field = int.from_bytes(info[offset : offset + size], order)
    sender = int.from_bytes(info[offset : offset + 4], order) if code in SENT_BY_PROCESS else 0
    return signal_of(number, code, field, sender)


def signal_code(info: bytes, order: ByteOrder) -> int:
    """Return si_code of the bytes of NT_SIGINFO, 0 if they are missing."""
    return int.from_bytes(info[8:12], order, signed=True)


def signal_of(number: int, code: int, address: int, sender: int = 0) -> Signal:
    """Return a signal by its number, its si_code, the address that it reports, and the pid of its sender."""
    name = signal_name(number)
    if code <= 0:
        return Signal(number, name, f"sent by process {sender}" if sender else "", None, sender or None)
    if name not in ADDRESS_SIGNALS:
        return Signal(number, name)
    if code == SENT_BY_KERNEL:
        return Signal(number, name, "at an address that the kernel does not report")
    cause = CAUSES.get((name, code), "at {address:#x}")
    return Signal(number, name, cause.format(address=address), address)
