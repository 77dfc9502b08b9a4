"""Exceptions of a minidump by the numbers of each system: a name, a cause and an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.dumps import minidump_layout as layout
from whence.dumps.signals import Signal, signal_of

if TYPE_CHECKING:
    from whence.dumps.minidump import ExceptionInfo, System

DUMP_REQUESTED = 0xFFFFFFFF  # Breakpad: the dump was written without an exception
SIMULATED = {0x0517A7ED: "dump without a crash", 0x43507378: "dump without a crash"}  # Crashpad
ACCESS_VIOLATION, IN_PAGE_ERROR, FAIL_FAST = 0xC0000005, 0xC0000006, 0xC0000409
ACCESSES = {0: "reading", 1: "writing", 8: "executing"}

WINDOWS = {
    0x40010005: "DBG_CONTROL_C", 0x40010006: "DBG_PRINTEXCEPTION_C", 0x80000001: "EXCEPTION_GUARD_PAGE",
    0x80000002: "EXCEPTION_DATATYPE_MISALIGNMENT", 0x80000003: "EXCEPTION_BREAKPOINT",
    0x80000004: "EXCEPTION_SINGLE_STEP", ACCESS_VIOLATION: "EXCEPTION_ACCESS_VIOLATION",
    IN_PAGE_ERROR: "EXCEPTION_IN_PAGE_ERROR", 0xC0000008: "EXCEPTION_INVALID_HANDLE",
    0xC0000017: "STATUS_NO_MEMORY", 0xC000001D: "EXCEPTION_ILLEGAL_INSTRUCTION",
    0xC0000025: "EXCEPTION_NONCONTINUABLE_EXCEPTION", 0xC0000026: "EXCEPTION_INVALID_DISPOSITION",
    0xC000008C: "EXCEPTION_ARRAY_BOUNDS_EXCEEDED", 0xC000008D: "EXCEPTION_FLT_DENORMAL_OPERAND",
    0xC000008E: "EXCEPTION_FLT_DIVIDE_BY_ZERO", 0xC000008F: "EXCEPTION_FLT_INEXACT_RESULT",
    0xC0000090: "EXCEPTION_FLT_INVALID_OPERATION", 0xC0000091: "EXCEPTION_FLT_OVERFLOW",
    0xC0000092: "EXCEPTION_FLT_STACK_CHECK", 0xC0000093: "EXCEPTION_FLT_UNDERFLOW",
    0xC0000094: "EXCEPTION_INT_DIVIDE_BY_ZERO", 0xC0000095: "EXCEPTION_INT_OVERFLOW",
    0xC0000096: "EXCEPTION_PRIV_INSTRUCTION", 0xC00000FD: "EXCEPTION_STACK_OVERFLOW",
    0xC000013A: "STATUS_CONTROL_C_EXIT", 0xC0000374: "STATUS_HEAP_CORRUPTION",
    FAIL_FAST: "STATUS_STACK_BUFFER_OVERRUN", 0xC000041D: "STATUS_FATAL_USER_CALLBACK_EXCEPTION",
    0xC0000420: "STATUS_ASSERTION_FAILURE", 0xC0000602: "STATUS_FAIL_FAST_EXCEPTION",
    0xC06D007E: "delay-loaded DLL not found", 0xC06D007F: "function of a delay-loaded DLL not found",
    0xE0434352: "exception of .NET", 0xE06D7363: "C++ exception",
}  # fmt: skip
MACH = {
    1: "EXC_BAD_ACCESS", 2: "EXC_BAD_INSTRUCTION", 3: "EXC_ARITHMETIC", 4: "EXC_EMULATION", 5: "EXC_SOFTWARE",
    6: "EXC_BREAKPOINT", 7: "EXC_SYSCALL", 8: "EXC_MACH_SYSCALL", 9: "EXC_RPC_ALERT", 10: "EXC_CRASH",
    11: "EXC_RESOURCE", 12: "EXC_GUARD", 13: "EXC_CORPSE_NOTIFY",
}  # fmt: skip


def signal_of_exception(exception: ExceptionInfo, system: System) -> Signal | None:
    """Return an exception as the signal of its thread; None if the dump was written without one."""
    code, address = exception.code, exception.address
    if code == DUMP_REQUESTED:
        return None
    if code in SIMULATED:
        return Signal(code, SIMULATED[code])
    if system.platform in (layout.MACOS, layout.IOS):
        return Signal(
            code, MACH.get(code, f"exception {code:#x}"), f"code {exception.flags:#x} at {address:#x}", address
        )
    if not system.is_windows:
        signed = exception.flags - (1 << 32) if exception.flags >> 31 else exception.flags
        return signal_of(code, signed, address) if code else None
    name = WINDOWS.get(code, f"exception {code:#010x}")
    information = exception.information
    if code in (ACCESS_VIOLATION, IN_PAGE_ERROR) and len(information) > 1:
        access = ACCESSES.get(information[0], "accessing")
        return Signal(code, name, f"{access} address {information[1]:#x}", information[1])
    if code == FAIL_FAST and information:
        return Signal(code, name, f"fail-fast code {information[0]}", None)
    return Signal(code, name, f"at {address:#x}" if address else "", address or None)
