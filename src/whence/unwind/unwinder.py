"""Unwind a stopped thread: from its registers to its frames, one caller after another.

The caller of a frame is found by the first of these that applies; the frame records which:

    1. code that signal handlers return to, recognized by its bytes
    2. Go's own tables, for Go functions
    3. call frame information: .eh_frame, then .debug_frame
    4. on 32-bit x86, frame data of PDB and Breakpad symbol files (frame_data.py)
    5. on x86 and 32-bit ARM, the instructions up to a return, or from the function's start (instructions.py, arm.py)
    6. for the innermost frame only: a jump to an address without code, the instructions at a function's start and end,
       and, in a function that saved nothing, a return address after a call of that function
    7. the frame pointer or the back chain, if it points into the stack and its return address follows a call or, in
       generated code, if the chain reaches such a return address in a file's code

A return address is the byte after a call, which may belong to the next function: callers are looked up one byte before.
Code that a signal interrupted is looked up at its exact address.

A stack ends where CFI says so (the return address is undefined) or at a return address of 0, unless its page has only
zeros or another return address follows shortly above. For any other end, the detail says what was missing. A caller's
frame must be above its callee's, except across signal handlers, which may have their own stack, and where CFI switches
to other memory at a return address. The number of frames is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from whence._base.errors import DwarfError
from whence.unwind.cfi import CfiRow, Cie, Fde, How
from whence.unwind.constants import Operation
from whence.unwind.expressions import evaluate
from whence.unwind.instructions import RETURN_COLUMNS, CodePath
from whence.unwind.kernels.constants import DW_EH_PE_omit
from whence.unwind.memory import PAGE, Memory, Unreadable
from whence.unwind.steps import End, Ended, FoundBy, FrameStep, StackFrame, Unwound

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.gopclntab.frames import GoFunction
    from whence.unwind.frame_data import FrameData
    from whence.unwind.gostack import GoStacks
    from whence.unwind.registers import Machine
    from whence.unwind.walking import PlainWalker

STEPS_LIMIT = 1_000_000  # for all threads together, plus one per FRAME_BYTES of the process's memory
FRAME_BYTES = 16  # the smallest frame
RULES_A_STEP, STEPS_AN_EXPRESSION = 16, 16  # costs
INNER_KEPT, OUTER_KEPT = 4096, 256  # frames returned of a longer stack; the others are counted
CALL_BYTES = 7  # the longest call of x86-64
LEAF_BYTES = 4096  # longest leaf function
FUNCTION_BYTES = 1 << 16  # longest function for guesses
STEPS_OF_INSTRUCTIONS = 500  # cost of a walk over instructions
ARM_STEPS = 2000  # cost of a walk over instructions of 32-bit ARM
LINK_OF_ARM = 14
ENTRY_WORDS = 64  # of the stack, searched for a return address into a program's entry code
CALL_WORDS, CALLS_TRIED = 256, 8  # of the stack, searched for a call of the frame's function; calls tried
GENERATED_FRAMES = 1000  # frame records of generated code up to a file's code
SCAN_WORDS, WORDS_A_STEP = 1024, 64  # of the stack, searched for a return address
ABOVE_WORDS = 128  # above a return address of 0, searched for a return address
RED_ZONE = 128  # bytes below the stack pointer that leaf functions of x86-64 use
FRAME_WORDS = 256  # of the stack, searched for the return address of a frame whose size is known
GUESSED = (End.NO_CFI, End.NOT_CODE)  # a guess may replace these ends
JUMP_INDIRECT = b"\xff\x25"  # x86-64: start of a PLT stub: jmp *disp32(%rip)
CALL_POINTER = b"\xff\x15"  # x86-64: call *disp32(%rip)
BND, STUB_BYTES = b"\xf2", 11  # a prefix of that jump; longest stub
CLONE_BYTES = 12  # between the system call that makes a thread and the FDE of the new thread
ENDBR64, ENDBR32 = bytes.fromhex("f30f1efa"), bytes.fromhex("f30f1efb")
MOVES_64, MOVES_32 = (b"\x48\x89\xe5", b"\x48\x8b\xec"), (b"\x89\xe5", b"\x8b\xec")  # mov %rsp, %rbp
CALL_REL32 = 0xE8  # x86: call rel32
GROUP_5, GROUP_5_CALL = 0xFF, 2  # x86: opcode of indirect calls and its register field
BL, BLR_BITS, BLR = 0b100101, 0xFEFFF000, 0xD63F0000  # aarch64: the six opcode bits of bl; blr and blraa

OTHER_TABLES = {
    ".sframe": FoundBy.SFRAME,
    ".ARM.exidx": FoundBy.EXIDX,
    ".pdata": FoundBy.PDATA,
    "__unwind_info": FoundBy.COMPACT,
}


class UnwindCode(Protocol):
    """The executable memory of a process: CoreCode, or a test's."""

    def fde(self, address: int) -> tuple[Fde, int] | None:
        """Return the FDE of a runtime address and the bias (runtime address - vaddr). Raises DwarfError."""
        ...

    def frame_data(self, address: int) -> FrameData | None:
        """Return the frame data of a runtime address, of 32-bit x86 programs of Windows."""
        ...

    def is_code(self, address: int) -> bool:
        """Return True if `address` is in executable memory."""
        ...

    def is_generated(self, address: int) -> bool:
        """Return True if `address` is in executable memory that is not mapped from a file."""
        ...

    def go(self, pc: int, lookup: int) -> GoFunction | None:
        """Return the Go function that contains `lookup`, with its depth at `pc`; None if it is not Go code."""
        ...

    def entry_before(self, address: int) -> int | None:
        """Return the entry point of a program or its loader if `address` is shortly after it."""
        ...

    def function(self, address: int) -> tuple[int, int, bool] | None:
        """Return [start, end) of the ARM function at `address` by its symbol, and True for Thumb code."""
        ...

    def calls_main(self, address: int) -> bool:
        """Return True if `address` is in a function of a C library that calls main and does not return."""
        ...

    def needs_no_table(self, address: int) -> bool:
        """Return True if code without an entry in the file's table is that of leaf functions, as in PE files."""
        ...

    def why_not(self, address: int) -> str:
        """Return why `address` has no FDE, as text for users."""
        ...


class Unwinder:
    """Unwinds threads of one process. What it learns about code is shared by all threads."""

    def __init__(
        self, machine: Machine, code: UnwindCode, memory: Memory, order: ByteOrder = "little", *, stored: int = 0,
        walker: PlainWalker | None = None,
    ) -> None:  # fmt: skip
        """Prepare to unwind threads.

        Args:
            stored: bytes of memory available; the number of steps for all stacks together depends on it.
            walker: the compiled fast path for frames with ordinary CFI.
        """
        self.walker = walker
        self.steps_left = STEPS_LIMIT + stored // FRAME_BYTES
        self.machine, self.code, self.memory, self.order = machine, code, memory, order
        self.mask = (1 << machine.bits) - 1
        self._trampolines: dict[int, bool] = {}
        self._is_code: dict[int, bool] = {}
        self._go: GoStacks | None = None
        self._functions: dict[tuple[int, int], GoFunction | None] = {}
        self.thread_pointer = 0
        self._frame_data: dict[int, FrameData | None] = {}
        self._params = 0  # bytes of arguments of the function called last, by its frame data
        self.scan = False  # guess callers if nothing else finds one
        self._rows: dict[int, tuple[CfiRow, Fde] | DwarfError | None] = {}
        self._to_return: dict[int, list[CfiRow]] = {}
        self._is_after_entry: dict[int, bool] = {}
        self._called: dict[int, int | None] = {}
        self._from_start: dict[tuple[int, int], CfiRow | None] = {}
        self._arm_rows: dict[tuple[int, int], list[CfiRow]] = {}
        self._leading_out: set[int] = set()  # frame records whose chain is known to reach a file's code

    def unwind(self, pc: int, registers: Mapping[int, int], thread_pointer: int = 0) -> Unwound:
        """Return the stack of a thread. A damaged process ends the stack with a reason; it never raises.

        Args:
            registers: values by DWARF number.
            thread_pointer: address of thread-local storage, where Go keeps the current goroutine.
        """
        machine = self.machine
        self.thread_pointer = thread_pointer
        self._params = 0
        self._leading_out.clear()
        values = dict(registers)
        frame = StackFrame(pc, values.get(machine.sp, 0), FoundBy.REGISTERS, exact=True)
        inner: list[StackFrame] = []
        outer: deque[StackFrame] = deque(maxlen=OUTER_KEPT)
        interrupted: set[tuple[int, int]] = set()
        count, cfa_before = 0, values.get(machine.sp, 0)
        after_signal = True  # the innermost frame may end at its stack pointer, too
        while True:
            if self.walker is not None and self.steps_left > 0 and not (frame.exact and self.is_new(frame, values)):
                walked = self.walker.walk(
                    frame.pc, frame.exact, after_signal, cfa_before, values, min(INNER_KEPT, self.steps_left)
                )
                if walked is not None:
                    self.steps_left -= len(walked.frames)
                    for index, (pc, sp) in enumerate(walked.frames):
                        passed = StackFrame(pc, sp, FoundBy.CFI) if index else frame
                        (inner if len(inner) < INNER_KEPT else outer).append(passed)
                    count += len(walked.frames)
                    if walked.is_complete:
                        return Unwound((*inner, *outer), End.COMPLETE, "", count - len(inner) - len(outer))
                    cfa_before, values, after_signal = walked.cfa_before, walked.registers, False
                    frame = StackFrame(walked.pc, values[machine.sp], FoundBy.CFI)
                    continue
            ends_context = not frame.exact and self.ends_context(frame.pc)
            if ends_context:
                frame = frame._replace(exact=True)
            elif self.trampoline(frame) is not None or self.signal_row(frame):
                frame = frame._replace(is_trampoline=True)
            count += 1
            if len(inner) < INNER_KEPT:
                inner.append(frame)
            else:
                outer.append(frame)
            try:
                if ends_context:
                    raise Ended(End.COMPLETE)
                self.charge(1)
                step = self.step(frame, values)
                if step.cfa < cfa_before and self.is_on_other_stack(step, frame):
                    step = step._replace(from_trampoline=True)
                self.check(step, frame, cfa_before, after_signal)
                if step.from_trampoline:  # such frames may be at any address, so `check` cannot end a loop
                    position = step.pc, step.registers.get(self.machine.sp, 0)
                    if position in interrupted:
                        raise Ended(End.LOOP, f"{step.pc:#x} was interrupted twice")
                    interrupted.add(position)
            except Ended as ended:
                guess = self.scanned(frame, values) if self.scan and ended.end in GUESSED else None
                if guess is None:
                    return Unwound((*inner, *outer), ended.end, ended.detail, count - len(inner) - len(outer))
                step = guess
            is_plain = step.found_by is FoundBy.CFI and not (step.from_trampoline or frame.is_trampoline)
            if self.walker is not None and is_plain:
                self.walker.kernel.learn_plain(frame.pc, frame.exact, step.dead)
            after_signal = step.from_trampoline
            cfa_before, values = step.cfa, step.registers
            frame = StackFrame(step.pc, values[machine.sp], step.found_by, step.exact)

    def allow(self, stored: int) -> None:
        """Add the steps for `stored` more bytes of memory."""
        self.steps_left += stored // FRAME_BYTES

    def charge(self, steps: int) -> None:
        """Count steps. Raises Ended if all stacks together took too many."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise Ended(End.LIMIT)

    def is_on_other_stack(self, step: FrameStep, frame: StackFrame) -> bool:
        """Return True if CFI leads to other memory, and there to a return address.

        Code that switches stacks does that, such as gcc's __morestack (-fsplit-stack). Stacks in one region count as
        other memory if the CFA is read from memory, as in Wine's system calls.
        """
        if step.from_trampoline or step.found_by is not FoundBy.CFI:
            return False
        other = self.memory.region(step.cfa)
        if other is None or not self.is_code(step.pc - 1):
            return False
        if other == self.memory.region(frame.sp):
            row = self.row_of(frame)
            if row is None or row[0].cfa is None or Operation.DEREF not in (row[0].cfa.expression or b""):
                return False
        before = self._bytes(step.pc - 1, 1)
        return (
            (before is not None and (self.follows_call(step.pc) or self.follows_syscall(step.pc)))
            or self.returns_from_signal(step.pc)
            or self.ends_context(step.pc)
        )

    def check(self, step: FrameStep, frame: StackFrame, cfa_before: int, after_signal: bool) -> None:
        """Raise Ended unless the caller is in code and its frame is above its callee's."""
        if not step.pc and not step.from_trampoline and not frame.is_trampoline:
            if self.is_zeroed(frame.sp, step.cfa):
                raise Ended(End.UNREADABLE, f"the stack at {step.cfa - self.machine.word:#x} has only zeros")
            slot = self.return_above(step.cfa)
            if slot is not None:
                raise Ended(End.NOT_CODE, f"the return address is 0, and a return address follows at {slot:#x}")
            raise Ended(End.COMPLETE)
        if not step.from_trampoline:
            if step.cfa < cfa_before or (step.cfa == cfa_before and not after_signal):
                raise Ended(End.LOOP, f"the frame of {frame.pc:#x} ends at {step.cfa:#x}, not above {cfa_before:#x}")
            if step.cfa == frame.sp and step.pc == frame.pc:
                raise Ended(End.LOOP, f"{step.pc:#x} is its own caller")
            if not self.is_code(step.pc - 1) and not self.is_code(step.pc):
                raise Ended(End.NOT_CODE, f"{step.pc:#x} is not in executable memory")

    # one step

    def step(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep:
        """Return the caller of a frame. Raises Ended."""
        try:
            context = self.trampoline(frame)
            if context is not None:
                return self.interrupted(frame, context)
            key = frame.pc, frame.lookup
            if key not in self._functions:
                self._functions[key] = self.code.go(*key)
            function = self._functions[key]
            if function is not None:
                if self._go is None:
                    from whence.unwind.gostack import GoStacks

                    self._go = GoStacks(self.machine, self.word, self.is_code)
                caller = self._go.step(function, frame, registers, self.thread_pointer)
                if caller is not None:
                    return caller
            row = self.row_of(frame)
            if row is not None:
                if self.begins_a_thread(frame, registers, *row):
                    raise Ended(End.COMPLETE)
                return self.by_cfi(frame, registers, *row)
            step = self.by_frame_data(frame, registers) or self.without_cfi(frame, registers)
        except Unreadable as error:
            raise Ended(End.UNREADABLE, str(error)) from None
        except DwarfError as error:
            raise Ended(End.DAMAGED, str(error)) from None
        if step is None:
            if self.machine.instructions == "arm":
                begins = self.is_after_entry(frame)
            else:
                begins = self.code.entry_before(frame.lookup) is not None
            begins = begins or self.code.calls_main(frame.lookup)
            if begins or self.is_after_clone(frame, registers):
                raise Ended(End.COMPLETE)
            raise Ended(End.NO_CFI, self.code.why_not(frame.lookup))
        return step

    def is_new(self, frame: StackFrame, registers: dict[int, int]) -> bool:
        """Return True if a frame is just after the system call that made its thread (begins_a_thread)."""
        if registers.get(self.machine.result, 1):
            return False
        try:
            row = self.row_of(frame)
        except DwarfError:
            return False
        return row is not None and self.begins_a_thread(frame, registers, *row)

    def is_after_clone(self, frame: StackFrame, registers: dict[int, int]) -> bool:
        """Return True if a frame without CFI is just after clone or clone3, recognized by the system call's number.

        Valid only for stacks without a caller: a forked child is at the same address, with a copy of its parent's
        stack.
        """
        if not frame.exact or registers.get(self.machine.result, 1):
            return False
        return any(self._bytes(frame.pc - len(call), len(call)) == call for call in self.machine.clones)

    def begins_a_thread(self, frame: StackFrame, registers: dict[int, int], row: CfiRow, fde: Fde) -> bool:
        """Return True if a frame is just after the system call that made its thread, with no return address yet.

        glibc's clone has two FDEs: the parent's and, some instructions after the system call, the child's, whose return
        address is undefined. In the child the call returns 0.
        """
        if self.machine.syscall is None or not frame.exact or registers.get(self.machine.result, 1):
            return False
        rule = row.rules.get(fde.cie.return_column)
        if rule is None or rule.how is How.UNDEFINED:
            return False
        before = self._bytes(frame.pc - CLONE_BYTES, CLONE_BYTES)
        if before is None or self.machine.syscall not in before:
            return False
        for address in range(frame.pc + 1, frame.pc + CLONE_BYTES):
            other = self._row(address)
            if other is not None and other[1] is not fde:
                rule = other[0].rules.get(other[1].cie.return_column)
                return rule is not None and rule.how is How.UNDEFINED
        return False

    def by_cfi(self, frame: StackFrame, registers: dict[int, int], row: CfiRow, fde: Fde) -> FrameStep:
        machine, memory = self.machine, self.memory
        if row.cfa is None:
            raise DwarfError(fde.section, fde.offset, "the row does not define the CFA")
        self.charge(len(row.rules) // RULES_A_STEP)
        if row.cfa.expression is not None:
            self.charge(STEPS_AN_EXPRESSION)
            operands = registers
            if machine.link is None:  # calls push the return address: its column is the pc in expressions of PLTs
                operands = {**registers, fde.cie.return_column: frame.pc}
            cfa = evaluate(row.cfa.expression, operands, memory, bits=machine.bits, order=self.order)
        else:
            base = registers.get(row.cfa.register)
            if base is None:
                raise Ended(
                    End.DAMAGED, f"the CFA at {frame.pc:#x} needs register {row.cfa.register}, whose value is unknown"
                )
            cfa = base + row.cfa.offset & self.mask
        column = fde.cie.return_column
        values = {register: registers[register] for register in machine.callee_saved if register in registers}
        values[machine.sp] = cfa - machine.sp_below_cfa & self.mask
        pc: int | None = registers.get(column)
        dead: set[int] = set()
        for register, (how, number, expression) in row.rules.items():
            value: int | None
            if how is How.OFFSET:
                try:
                    value = self.word(cfa + number)
                except Unreadable:
                    if register == column or register == machine.sp:
                        raise
                    value = None  # callers may not need this register
                    if cfa + number < frame.sp:  # CFI does not say that the register was popped
                        is_back = self.is_restored(frame, register)
                        dead.add(1 if is_back else -1)
                        value = registers.get(register) if is_back else None
            elif how is How.SAME:
                value = registers.get(register)
            elif how is How.UNDEFINED:
                if register == column:
                    raise Ended(End.COMPLETE)
                value = None
            elif how is How.VAL_OFFSET:
                value = cfa + number & self.mask
            elif how is How.REGISTER:
                value = registers.get(number)
            else:
                self.charge(STEPS_AN_EXPRESSION)
                value = evaluate(expression, registers, memory, cfa, bits=machine.bits, order=self.order)
                if how is How.EXPRESSION:
                    value = self.word(value)
            if register == column:
                pc = value
            if value is None:
                values.pop(register, None)
            else:
                values[register] = value
        if pc is None:
            raise Ended(
                End.DAMAGED, f"the return address at {frame.pc:#x} is in register {column}, whose value is unknown"
            )
        signal = fde.cie.signal
        if not signal:
            pc &= machine.address_mask
        found_by = FoundBy.SIGNAL if signal else OTHER_TABLES.get(fde.section, FoundBy.CFI)
        of_dead = dead.pop() if len(dead) == 1 else 0
        return FrameStep(pc, values, cfa, found_by, exact=signal, from_trampoline=signal, dead=of_dead)

    def row_of(self, frame: StackFrame) -> tuple[CfiRow, Fde] | None:
        """Return the row of a frame. The FDE of a signal trampoline is looked up at the return address itself."""
        if not frame.exact:
            row = self._row(frame.pc)
            if row is not None and row[1].cie.signal:
                return row
        return self._row(frame.lookup)

    def _row(self, address: int) -> tuple[CfiRow, Fde] | None:
        if address not in self._rows:
            try:
                fde = self.code.fde(address)
                self._rows[address] = None if fde is None else (fde[0].row(address - fde[1]), fde[0])
            except DwarfError as error:
                self._rows[address] = error
        cached = self._rows[address]
        if isinstance(cached, DwarfError):
            raise cached
        return cached

    def ends_context(self, pc: int) -> bool:
        """Return True if `pc` is the code that makecontext returns to.

        It follows no call and starts by loading its stack pointer from another register. Its CFI, if any, is wrong.
        """
        if not any(self._bytes(pc, len(code)) == code for code in self.machine.contexts):
            return False
        if self.machine.instructions == "arm":  # glibc's code is A32, which can look like a Thumb call
            return self.call_before(pc) is not False
        return not self.follows_call(pc)

    def signal_row(self, frame: StackFrame) -> bool:
        try:
            row = self.row_of(frame)
        except DwarfError:
            return False
        return row is not None and row[1].cie.signal

    # signals

    def trampoline(self, frame: StackFrame) -> int | None:
        """Return the index of the machine's trampoline that a frame is in, or None."""
        for index, form in enumerate(self.machine.trampolines):
            key = frame.pc << 4 | index
            if key not in self._trampolines:
                self._trampolines[key] = self._bytes(frame.pc, len(form.code)) == form.code
            if self._trampolines[key]:
                return index
        return None

    def interrupted(self, frame: StackFrame, index: int) -> FrameStep:
        """Return what a signal interrupted, by the registers that the kernel saved on the stack."""
        form = self.machine.trampolines[index]
        values = {register: self.word(frame.sp + offset) for register, offset in form.registers.items()}
        pc = self.word(frame.sp + form.pc_offset)
        return FrameStep(pc, values, values[self.machine.sp], FoundBy.SIGNAL, exact=True, from_trampoline=True)

    # frame data

    def frame_data(self, frame: StackFrame) -> FrameData | None:
        """Return the frame data of a frame's code."""
        if self.machine.bits == 64 or self.machine.instructions != "x86":
            return None
        if frame.lookup not in self._frame_data:
            self._frame_data[frame.lookup] = self.code.frame_data(frame.lookup)
        return self._frame_data[frame.lookup]

    def by_frame_data(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller by frame data; None without any, or if it does not lead to a return address."""
        data = self.frame_data(frame)
        callee_params, self._params = self._params, 0
        if data is None or not data.effective:
            return None
        step = None
        if frame.exact:
            step = self.by_epilogue(frame, registers) or self.by_prologue(frame, registers, data)
        if step is None:
            step = self.by_program(frame, registers, data, callee_params)
        if step is not None:
            self._params = data.params
        return step

    def by_epilogue(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller of 32-bit x86 code in an epilogue; None for other code."""
        from whence.unwind.frame_data import EPILOGUE_BYTES, read_epilogue

        machine = self.machine
        epilogue = read_epilogue(self._bytes(frame.pc, EPILOGUE_BYTES) or b"")
        base = registers.get(machine.fp if epilogue is not None and epilogue.from_base else machine.sp)
        if epilogue is None or base is None or not self.is_return(base + epilogue.returned):
            return None
        values = {number: value for number, value in registers.items() if number in machine.callee_saved}
        for number, offset in epilogue.saved.items():
            if number in machine.callee_saved:
                values[number] = self.word(base + offset)
        cfa = base + epilogue.returned + machine.word & self.mask
        return FrameStep(self.word(base + epilogue.returned), {**values, machine.sp: cfa}, cfa, FoundBy.INSTRUCTIONS)

    def by_prologue(self, frame: StackFrame, registers: dict[int, int], data: FrameData) -> FrameStep | None:
        """Return the caller of code in a prologue, by the instructions before; None for other code."""
        if not 0 <= frame.pc - data.start < data.prologue:
            return None
        self.charge(STEPS_OF_INSTRUCTIONS)
        row = CodePath(self.machine.bits, self.memory.read).from_start(data.start, frame.pc)
        return None if row is None else self.by_row(frame, registers, row)

    def by_program(
        self, frame: StackFrame, registers: dict[int, int], data: FrameData, callee_params: int
    ) -> FrameStep | None:
        """Return the caller by the program of frame data; None if it does not lead to a return address."""
        from whence.unwind.frame_data import RETURN_SEARCH, popped_by_call, run_program

        self.charge(STEPS_AN_EXPRESSION)
        machine, sp = self.machine, registers[self.machine.sp]
        names = {number: f"${name}" for number, name in machine.names.items()}
        variables = {names[number]: value for number, value in registers.items() if number in names}
        variables |= {
            ".cbCalleeParams": callee_params, ".cbParams": data.params, ".cbSavedRegs": data.saved,
            ".cbLocals": data.local,
        }  # fmt: skip
        if RETURN_SEARCH in data.effective:
            size = data.saved + data.local
            if frame.exact and self.follows_call(frame.pc):
                size -= popped_by_call(self._bytes(frame.pc, 3) or b"", data.local)
            slot = self.return_slot(frame, sp + size & self.mask, callee_params)
            variables[RETURN_SEARCH] = variables[f"{RETURN_SEARCH}Start"] = slot
        result = run_program(data.effective, variables, self.word)
        if result is None or "$eip" not in result or result["$esp"] <= sp:
            return None
        pc, cfa = result["$eip"], result["$esp"]
        if pc and not (self.is_code(pc - 1) and self.follows_call(pc)):
            return None
        values = {number: result[names[number]] for number in machine.callee_saved if names[number] in result}
        return FrameStep(pc, {**values, machine.sp: cfa}, cfa, FoundBy.FRAME_DATA)

    def return_slot(self, frame: StackFrame, start: int, callee_params: int) -> int:
        """Return where the return address of a frame is: at `start` or above, after arguments of calls.

        A return address at `start`, or after the arguments of the called function, is preferred to others, then one
        after a call of the frame's function. Without any, the result is `start`.
        """
        for address in (start, start + callee_params):
            if self.is_return(address):
                return address
        self.charge(FRAME_WORDS // WORDS_A_STEP)
        slots = [address for address in range(start, start + 4 * FRAME_WORDS, 4) if self.is_return(address)]
        called = (address for address in slots if self.may_have_called(self.word(address), frame.pc))
        return next(called, slots[0] if slots else start)

    def is_return(self, address: int) -> bool:
        """Return True if the word at an address is a return address."""
        pc = self.pointer(address)
        return pc is not None and self.is_code(pc - 1) and self.follows_call(pc)

    # without CFI

    def without_cfi(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        if frame.exact and not self.is_code(frame.pc):
            return self.called(registers, 0, FoundBy.CALL)
        if not frame.exact and self.is_outermost(frame):
            if self.walker is not None:
                self.walker.kernel.learn_end(frame.pc)
            raise Ended(End.COMPLETE)
        step = self.by_instructions(frame, registers) or self.by_outermost(frame, registers)
        if step is not None:
            return step
        if frame.exact:
            depth = self.pushed(frame.pc)
            if depth is not None:
                return self.called(registers, depth, FoundBy.PROLOGUE)
            if self.is_leaf(frame, registers):
                return self.called(registers, 0, FoundBy.LEAF)
        return self.by_frame_pointer(frame, registers) or self.by_back_chain(frame, registers)

    def by_instructions(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller by the instructions from here to a return, else from the function's start to here.

        The start is found by a call of the function whose return address is on the stack. None if neither leads to a
        return address after a call.
        """
        if self.machine.instructions == "arm":
            return self.by_arm(frame, registers)
        if self.machine.instructions != "x86":
            return None
        for row in self.rows_to_return(frame.pc):
            step = self.by_row(frame, registers, row)
            if step is not None:
                return step
        return self.by_call(frame, registers)

    def by_arm(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller by instructions of 32-bit ARM: from the function's start to here, or from here to a return.

        The start is known by a symbol or, in the innermost frame, by the call that left its return address in lr.
        """
        key = frame.pc, frame.lookup
        if key not in self._arm_rows:
            self._arm_rows[key] = [*self.arm_rows(frame, registers)]
        for row in self._arm_rows[key]:
            step = self.by_row(frame, registers, row)
            if step is not None:
                return step
        return None

    def arm_rows(self, frame: StackFrame, registers: dict[int, int]) -> Iterator[CfiRow]:
        """Yield rows of 32-bit ARM code without tables, most reliable first."""
        from whence.unwind.arm import ArmPath, call_target

        pc, read = frame.pc, self.memory.read
        function = self.code.function(frame.lookup)
        is_thumb = None if frame.exact else self.call_before(pc)
        if function is not None:
            start, end, is_thumb = function
            self.charge(ARM_STEPS)
            row = ArmPath(read, is_thumb).from_start(start, end, pc, frame.exact)
            if row is not None:
                yield row
        elif frame.exact:
            link = registers.get(LINK_OF_ARM, 0)
            is_thumb = bool(link & 1)  # static functions are called in the caller's instruction set
            target = call_target(link & self.machine.address_mask, read)
            if target is not None and 0 <= pc - target[0] < LEAF_BYTES:
                self.charge(ARM_STEPS)
                row = ArmPath(read, target[1]).from_start(target[0], target[0] + LEAF_BYTES, pc, True)
                is_thumb = target[1]
                if row is not None:
                    yield row
        if is_thumb is not None:
            self.charge(ARM_STEPS)
            yield from ArmPath(read, is_thumb).to_return(pc, frame.exact)

    def call_before(self, pc: int) -> bool | None:
        """Return True if a Thumb call precedes `pc`, False for an A32 call, None otherwise."""
        from whence.unwind.arm import call_before

        try:
            return call_before(pc, self.memory.read)
        except Unreadable:
            return None

    def rows_to_return(self, pc: int) -> list[CfiRow]:
        """Return a row for each path from x86 code at `pc` to a return."""
        if pc not in self._to_return:
            self.charge(STEPS_OF_INSTRUCTIONS)
            self._to_return[pc] = CodePath(self.machine.bits, self.memory.read).to_return(pc)
        return self._to_return[pc]

    def is_after_entry(self, frame: StackFrame) -> bool:
        """Return True if a frame is in the entry code of a program or its loader, which has no caller."""
        if frame.pc not in self._is_after_entry:
            entry = self.code.entry_before(frame.lookup) if self.machine.instructions in ("x86", "arm") else None
            is_after = False
            if entry is not None and self.machine.instructions == "arm":
                from whence.unwind.arm import ArmPath

                function = self.code.function(frame.lookup)
                is_thumb = bool(entry & 1)
                is_after = function is None or function[0] == entry & ~1
                is_after = is_after and ArmPath(self.memory.read, is_thumb).is_frameless(entry & ~1, frame.pc)
            elif entry is not None:
                self.charge(STEPS_OF_INSTRUCTIONS)
                is_after = CodePath(self.machine.bits, self.memory.read).leads_to(entry, frame.pc)
            self._is_after_entry[frame.pc] = is_after
        return self._is_after_entry[frame.pc]

    def is_outermost(self, frame: StackFrame) -> bool:
        """Return True if a frame is in code without a caller: a program's entry, or the end of a thread."""
        exits = self.machine.exits
        return self.is_after_entry(frame) or any(self._bytes(frame.pc, len(code)) == code for code in exits)

    def by_outermost(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller if the first word on the stack that follows a call returns into outermost code.

        A frame in between would have its return address before it. This is for functions without CFI that do not
        return, such as functions that call main and exit.
        """
        machine, sp = self.machine, registers[self.machine.sp]
        bounds = self.memory.region(sp)
        if bounds is None or machine.instructions != "x86":
            return None
        self.charge(ENTRY_WORDS // RULES_A_STEP)
        for address in range(sp, min(sp + ENTRY_WORDS * machine.word, bounds[1] - machine.word + 1), machine.word):
            pc = self.pointer(address)
            if pc is None:
                return None
            if not self.is_code(pc - 1) or not self.follows_call(pc):
                continue
            if not self.is_outermost(StackFrame(pc, address + machine.word, FoundBy.INSTRUCTIONS)):
                return None
            return FrameStep(pc, {machine.sp: address + machine.word}, address + machine.word, FoundBy.INSTRUCTIONS)
        return None

    def is_restored(self, frame: StackFrame, register: int) -> bool:
        """Return True if a function has already restored a register: no path to a return changes it."""
        if not frame.exact or self.machine.instructions != "x86":
            return False
        rows = self.rows_to_return(frame.pc)
        return bool(rows) and all(register not in row.rules for row in rows)

    def by_call(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller by a return address on the stack that follows a call of the frame's function.

        The instructions from that function's start to here must push as much as there is below the return address.
        """
        machine, sp = self.machine, registers[self.machine.sp]
        bounds = self.memory.region(sp)
        if bounds is None:
            return None
        self.charge(CALL_WORDS // RULES_A_STEP)
        size = min(CALL_WORDS, (bounds[1] - sp) // machine.word) * machine.word
        words = self._bytes(sp, size) or b""
        tried = 0
        for offset in range(0, len(words), machine.word):
            pc = int.from_bytes(words[offset : offset + machine.word], self.order)
            if pc not in self._called:
                self._called[pc] = self.called_function(pc) if self.is_code(pc - 1) else None
            target = self._called[pc]
            if target is None or not 0 <= frame.pc - target < FUNCTION_BYTES:
                continue
            key = target, frame.pc
            if key not in self._from_start:
                self.charge(STEPS_OF_INSTRUCTIONS)
                self._from_start[key] = CodePath(machine.bits, self.memory.read).from_start(*key)
            row = self._from_start[key]
            if row is not None and row.cfa is not None and row.cfa.offset == offset + machine.word:
                return self.by_row(frame, registers, row)
            tried += 1
            if tried >= CALLS_TRIED:
                break
        return None

    def by_row(self, frame: StackFrame, registers: dict[int, int], row: CfiRow) -> FrameStep | None:
        """Return the caller by a row derived from instructions.

        None unless its return address follows a call or returns from a signal handler, and its frame is above this
        frame.
        """
        link = self.machine.link
        column = RETURN_COLUMNS[self.machine.bits] if link is None else link
        cie = Cie(1, 1, column, 0, DW_EH_PE_omit, False, False, self.machine.word, memoryview(b""))
        try:
            step = self.by_cfi(frame, registers, row, Fde(frame.pc, frame.pc + 1, cie, (row,), "", 0))
        except (Ended, Unreadable) as error:
            if isinstance(error, Ended) and error.end is End.LIMIT:
                raise
            return None
        pc = step.pc
        if (
            step.cfa < frame.sp + (0 if frame.exact and column not in row.rules else 1)
            or not self.is_code(pc - 1)
            or not (self.follows_call(pc) or self.returns_from_signal(pc))
        ):
            return None
        return step._replace(found_by=FoundBy.INSTRUCTIONS)

    def called(self, registers: dict[int, int], pushed: int, found_by: FoundBy) -> FrameStep:
        """Return the caller of a function that has only pushed `pushed` words."""
        machine = self.machine
        values = {register: registers[register] for register in machine.callee_saved if register in registers}
        sp = registers[machine.sp] + pushed * machine.word
        if machine.link is not None:
            pc = registers[machine.link]
        else:
            if pushed:
                values[machine.fp] = self.word(sp - machine.word)
            pc = self.word(sp)
            sp += machine.word
        values[machine.sp] = sp & self.mask
        return FrameStep(pc & machine.address_mask, values, sp, found_by)

    def pushed(self, pc: int) -> int | None:
        """Return how many words a function has pushed at its start or end (0 or 1), None elsewhere."""
        if self.machine.instructions in ("", "arm"):
            return None
        code = self._bytes(pc, 8) or self._bytes(pc, 4) or self._bytes(pc, 1) or b""
        if code.startswith(self.machine.returns):
            return 0
        if self.machine.link is not None:  # stp x29, x30, [sp, #-n]!
            return 0 if code[:2] == b"\xfd\x7b" and code[3:4] == b"\xa9" else None
        code = code.removeprefix(ENDBR64 if self.machine.bits == 64 else ENDBR32)
        if code.startswith(b"\x55"):  # push %rbp
            return 0
        if code.startswith(MOVES_64 if self.machine.bits == 64 else MOVES_32):
            return 1
        return None

    def is_leaf(self, frame: StackFrame, registers: dict[int, int]) -> bool:
        """Return True if a function that saved nothing has a return address that follows a call of this function.

        The function must not start by saving the frame pointer. In a file whose table leaves out only leaf functions,
        the return address may follow any call.
        """
        if self.machine.instructions in ("", "arm"):
            return False
        link = self.machine.link
        pc = self.word(frame.sp) if link is None else registers[link] & self.machine.address_mask
        if self.code.needs_no_table(frame.pc) and self.is_code(pc - 1) and self.follows_call(pc):
            return True
        target = self.call_target(pc)
        if target is None:
            return False
        return 0 <= frame.pc - target < LEAF_BYTES and self.pushed(target) is None

    def by_frame_pointer(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller by the frame record at the frame pointer, None unless the record is plausible."""
        machine = self.machine
        fp = registers.get(machine.fp, 0)
        if not fp and frame.found_by is FoundBy.FRAME_POINTER:  # 0 in the outermost function
            raise Ended(End.COMPLETE)
        if machine.frame_record is None:
            return None
        caller_offset, return_offset, size = machine.frame_record
        bounds = self.memory.region(frame.sp)
        if bounds is None or fp % machine.word or not frame.sp <= fp <= bounds[1] - size:
            return None
        pc = self.word(fp + return_offset) & machine.address_mask
        if not pc and (self.word(fp + caller_offset) or frame.found_by is not FoundBy.FRAME_POINTER):
            return None  # zeros on the stack do not prove that the stack ends
        is_return = self.follows_call(pc) or self.returns_from_signal(pc) or self.ends_context(pc)
        if pc and not (self.is_code(pc - 1) and (is_return or self.leads_out(frame, fp))):
            return None
        values = {register: registers[register] for register in machine.callee_saved if register in registers}
        values[machine.fp], values[machine.sp] = self.word(fp + caller_offset), fp + size
        return FrameStep(pc, values, fp + size, FoundBy.FRAME_POINTER)

    def leads_out(self, frame: StackFrame, fp: int) -> bool:
        """Return True if a frame record of generated code starts a chain to a return address in a file's code.

        Interpreters such as Java's return to code that follows no call.
        """
        machine = self.machine
        bounds = self.memory.region(frame.sp)
        if machine.frame_record is None or bounds is None or not self.code.is_generated(frame.lookup):
            return False
        caller_offset, return_offset, size = machine.frame_record
        records: list[int] = []
        while fp not in self._leading_out:
            if len(records) == GENERATED_FRAMES or fp % machine.word or fp > bounds[1] - size:
                return False
            self.charge(len(records) % RULES_A_STEP == 0)
            records.append(fp)
            pc, caller = self.pointer(fp + return_offset), self.pointer(fp + caller_offset)
            pc = (pc or 0) & machine.address_mask
            if not self.is_code(pc - 1):
                return False
            if not self.code.is_generated(pc):
                if not self.follows_call(pc):
                    return False
                break
            if caller is None or caller <= fp:
                return False
            fp = caller
        self._leading_out.update(records)
        return True

    def by_back_chain(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller by the word at the stack pointer, which is its stack pointer; None if implausible.

        The innermost function may have no frame yet: then its return address is still in the link register, after
        another call than the return address on the stack.
        """
        machine = self.machine
        if machine.back_chain is None or machine.link is None:
            return None
        sp = registers[machine.sp]
        chain, bounds = self.word(sp), self.memory.region(sp)
        if not chain and not frame.exact:
            raise Ended(End.COMPLETE)
        values = {register: registers[register] for register in machine.callee_saved if register in registers}
        link = registers.get(machine.link, 0) & machine.address_mask if frame.exact else 0
        pc = 0
        if (
            bounds is not None
            and not chain % machine.word
            and sp < chain <= bounds[1] - machine.back_chain - machine.word
        ):
            pc = self.word(chain + machine.back_chain) & machine.address_mask
        if link and self.is_code(link - 1) and not self.is_in_function(link, frame.pc) and link != pc:
            values[machine.sp] = sp
            return FrameStep(link, values, sp, FoundBy.BACK_CHAIN)
        if not pc or not self.is_code(pc - 1):
            return None
        values[machine.sp] = chain
        return FrameStep(pc, values, chain, FoundBy.BACK_CHAIN)

    @staticmethod
    def is_in_function(link: int, pc: int) -> bool:
        """Return True if `link` can follow a call made by the function at `pc`: it is shortly before."""
        return 0 <= pc - link < LEAF_BYTES

    def returns_from_signal(self, pc: int) -> bool:
        """Return True if `pc` is the return address of a signal handler."""
        frame = StackFrame(pc, 0, FoundBy.FRAME_POINTER)
        return self.trampoline(frame) is not None or self.signal_row(frame)

    # guesses

    def scanned(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """Guess the caller by the first word on the stack that may be a return address; old ones may be there, too.

        The word must follow a call (of this function, if the target is known) or return from a signal handler.
        """
        machine = self.machine
        sp = registers[machine.sp]
        try:
            self.charge(SCAN_WORDS // WORDS_A_STEP)
            for address in range(sp, sp + SCAN_WORDS * machine.word, machine.word):
                pc = self.word(address) & machine.address_mask
                if not pc or not self.is_code(pc - 1):
                    continue
                if self.may_have_called(pc, frame.pc) or self.returns_from_signal(pc):
                    values = {
                        register: registers[register] for register in machine.callee_saved if register in registers
                    }
                    values[machine.sp] = address + machine.word
                    return FrameStep(pc, values, address + machine.word, FoundBy.SCAN)
        except (Unreadable, Ended):
            pass
        return None

    def may_have_called(self, pc: int, callee: int) -> bool:
        """Return True if an indirect call, or a call of a function that may contain `callee`, precedes `pc`."""
        if self._bytes(pc - CALL_BYTES, CALL_BYTES) is None or not self.follows_call(pc):
            return False
        target = self.call_target(pc)
        if target is None:
            return True
        code = self._bytes(target, len(ENDBR64) + 2) or b""
        return 0 <= callee - target < FUNCTION_BYTES or code.removeprefix(ENDBR64).startswith(JUMP_INDIRECT)

    def call_target(self, pc: int) -> int | None:
        """Return the target of the direct call before `pc`, None for another instruction."""
        if self.machine.link is None:
            call = self._bytes(pc - 5, 5)
            if call is None or call[0] != CALL_REL32:
                return None
            return pc + int.from_bytes(call[1:], "little", signed=True)
        if self.machine.instructions != "a64":
            return None
        word = int.from_bytes(self._bytes(pc - 4, 4) or b"", "little")
        if word >> 26 != BL:
            return None
        distance = word & 0x3FFFFFF
        return pc - 4 + 4 * (distance - (1 << 26) if distance >> 25 else distance)

    def called_function(self, pc: int) -> int | None:
        """Return the function that the call before `pc` leads to, None for another instruction.

        Calls through the GOT are followed: a call of the pointer itself, or of a PLT stub that jumps to it.
        """
        if self.machine.bits == 64:
            call = self._bytes(pc - 6, 6)
            if call is not None and call.startswith(CALL_POINTER):
                return self.pointer(pc + int.from_bytes(call[2:], "little", signed=True))
        target = self.call_target(pc)
        if target is None or self.machine.bits != 64:
            return target
        code = self._bytes(target, STUB_BYTES) or b""
        jump = code.removeprefix(ENDBR64).removeprefix(BND)
        if not jump.startswith(JUMP_INDIRECT):
            return target
        end = target + len(code) - len(jump) + 6
        return self.pointer(end + int.from_bytes(jump[2:6], "little", signed=True))

    def pointer(self, address: int) -> int | None:
        """Return the word at an address, None if it cannot be read."""
        try:
            return self.word(address)
        except Unreadable:
            return None

    def follows_call(self, pc: int) -> bool:
        """Return True if a call can precede `pc`, or if the bytes before `pc` cannot be read."""
        if not self.machine.instructions:
            return True
        if self.machine.instructions == "arm":
            return self._bytes(pc - 4, 4) is None or self.call_before(pc) is not None
        if self.machine.link is not None:
            before = self._bytes(pc - 4, 4)
            if before is None:
                return True
            word = int.from_bytes(before, "little")
            return word >> 26 == BL or word & BLR_BITS == BLR
        before = self._bytes(pc - CALL_BYTES, CALL_BYTES)
        if before is None:
            return True
        if before[-5] == CALL_REL32:
            return True
        return any(before[-size] == GROUP_5 and before[1 - size] >> 3 & 7 == GROUP_5_CALL for size in (2, 3, 4, 6, 7))

    def follows_syscall(self, pc: int) -> bool:
        """Return True if a system call precedes `pc`: Wine handles those of Windows in a function of its own."""
        call = self.machine.syscall
        return call is not None and self._bytes(pc - len(call), len(call)) == call

    # reading

    def return_above(self, cfa: int) -> int | None:
        """Return the address of the first return address shortly above the end of a frame; None if it is missing.

        A function without a caller, as the first of a coroutine, is at the end of its stack.
        """
        self.charge(ABOVE_WORDS // RULES_A_STEP)
        bounds, word = self.memory.region(cfa), self.machine.word
        if bounds is None:
            return None
        end = min(cfa + ABOVE_WORDS * word, bounds[1] - word + 1)
        return next((address for address in range(cfa, end, word) if self.is_return(address)), None)

    def is_zeroed(self, sp: int, cfa: int) -> bool:
        """Return True if the page of a frame's end has only zeros, as in dumps without the content of a stack.

        At most the red zone below the stack pointer is read.
        """
        page = cfa - 1 & -PAGE
        start = max(page, sp - RED_ZONE)
        content = self._bytes(start, page + PAGE - start) if cfa > sp else None
        return content is not None and not any(content)

    def is_code(self, address: int) -> bool:
        page = address >> 12
        cached = self._is_code.get(page)
        if cached is None:
            cached = self._is_code[page] = self.code.is_code(address)
        return cached

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory.read(address & self.mask, self.machine.word), self.order)

    def _bytes(self, address: int, size: int) -> bytes | None:
        try:
            return self.memory.read(address, size)
        except Unreadable:
            return None
