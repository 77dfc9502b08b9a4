"""From the registers of a stopped thread to its frames, one caller after another.

For each frame, in this order; what answers first is what counts, and is recorded with the frame:

    1. code that signal handlers return to, by its bytes
    2. Go's own tables, for Go's functions
    3. call frame information: .eh_frame, then .debug_frame
    4. of x86 and 32-bit ARM, the instructions from there to a return, or from the function's start on (instructions.py,
       arm.py)
    5. of the innermost frame alone: a jump to no code, the instructions of a function's beginning and end, and a
       return address where the function would have it if it kept nothing, behind a call that leads to it
    6. the frame pointer or the back chain, if what it leads to is on the stack and its return address follows a call,
       or, in generated code, if the chain leads to such a return address in a file's code

A return address is the byte behind a call, perhaps of the next function already: callers are looked up one byte before
it. What a signal interrupted is looked up at its very address.

A stack ends where CFI says so (the return address is undefined), or at a return address of 0. Any other end says what
was missing. A caller's frame must lie above that of what it called, except across signal handlers, which may have a
stack of their own, and where CFI leads to other memory and behind a call; and the number of frames is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from whence._base.errors import DwarfError
from whence.unwind.arm import ArmPath, call_before
from whence.unwind.arm import call_target as arm_call_target
from whence.unwind.cfi import CfiRow, Cie, Fde, How
from whence.unwind.expressions import evaluate
from whence.unwind.gostack import GoStacks
from whence.unwind.instructions import RETURN_COLUMNS, CodePath
from whence.unwind.kernels.constants import DW_EH_PE_omit
from whence.unwind.memory import Memory, Unreadable
from whence.unwind.steps import End, Ended, FoundBy, FrameStep, StackFrame, Unwound

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.gopclntab.frames import GoFunction
    from whence.unwind.gostack import GoStacks
    from whence.unwind.registers import Machine
    from whence.unwind.walking import PlainWalker

STEPS_LIMIT = 1_000_000  # for all threads together, plus what the bytes of the process's memory can hold
FRAME_BYTES = 16  # of memory, that a frame takes at least
RULES_A_STEP, STEPS_AN_EXPRESSION = 16, 16  # how rules and expressions count among the steps
INNER_KEPT, OUTER_KEPT = 4096, 256  # frames of a longer stack; those between are counted
CALL_BYTES = 7  # the longest call of x86-64
LEAF_BYTES = 4096  # from the beginning of a function that calls none; such are short
FUNCTION_BYTES = 1 << 16  # from the beginning of a function, that a guess may be in it
STEPS_OF_INSTRUCTIONS = 500  # how reading up to INSTRUCTIONS_LIMIT of them counts among the steps
ARM_STEPS = 2000  # the same for 32-bit ARM
LINK_OF_ARM = 14
ENTRY_WORDS = 64  # of the stack that are looked at for the return address of the code that a program is entered by
CALL_WORDS, CALLS_TRIED = 256, 8  # of the stack that are looked at for a call of a frame's function, and tried
GENERATED_FRAMES = 1000  # records of generated code up to a file's code
SCAN_WORDS, WORDS_A_STEP = 1024, 64  # of the stack that are looked at for a return address
GUESSED = (End.NO_CFI, End.NOT_CODE)  # ends that a guess may lead on from
JUMP_INDIRECT = b"\xff\x25"  # x86-64: what a stub of the PLT begins with
CALL_POINTER = b"\xff\x15"  # x86-64: a call of the address that is so far from the next instruction
BND, STUB_BYTES = b"\xf2", 11  # a prefix of that jump, and a stub's bytes up to its end
CLONE_BYTES = 12  # of code, between the system call that makes a thread and the FDE of the new one
ENDBR64, ENDBR32 = bytes.fromhex("f30f1efa"), bytes.fromhex("f30f1efb")
MOVES_64, MOVES_32 = (b"\x48\x89\xe5", b"\x48\x8b\xec"), (b"\x89\xe5", b"\x8b\xec")  # mov %rsp, %rbp
CALL_REL32 = 0xE8  # x86: the call of an address 32 bits away
GROUP_5, GROUP_5_CALL = 0xFF, 2  # the opcode of several instructions, and the register field of those that call
BL, BLR_BITS, BLR = 0b100101, 0xFEFFF000, 0xD63F0000  # aarch64: the six bits above bl's distance; blr, blraa and such


OTHER_TABLES = {".sframe": FoundBy.SFRAME, ".ARM.exidx": FoundBy.EXIDX}


class UnwindCode(Protocol):
    """What is known of the executable memory."""

    def fde(self, address: int) -> tuple[Fde, int] | None:
        """The FDE of a runtime address, and what to subtract of an address to get a vaddr. Raises DwarfError."""
        ...

    def is_code(self, address: int) -> bool: ...

    def is_generated(self, address: int) -> bool:
        """Whether an address is in code that belongs to no file, as compilers and interpreters generate."""
        ...

    def go(self, pc: int, lookup: int) -> GoFunction | None:
        """The function of Go that holds `lookup`, at `pc`; None where that is no Go."""
        ...

    def entry_before(self, address: int) -> int | None:
        """Where a program or its loader is entered, for an address right behind that; None for others."""
        ...

    def function(self, address: int) -> tuple[int, int, bool] | None:
        """The function of ARM code by its symbol: [start, end), and whether it is Thumb. None where none is known."""
        ...

    def calls_main(self, address: int) -> bool:
        """Whether an address is in a C library's code that calls main and never returns, by its symbol."""
        ...

    def why_not(self, address: int) -> str:
        """Why there is no FDE of an address: in words, for people."""
        ...


class Unwinder:
    """Unwinds threads of one process; what it learnt of one frame serves all threads."""

    def __init__(
        self, machine: Machine, code: UnwindCode, memory: Memory, order: ByteOrder = "little", *, stored: int = 0,
        walker: PlainWalker | None = None,
    ) -> None:  # fmt: skip
        """`stored` is how many bytes of memory there are: what all stacks together may cost depends on it. `walker`
        walks what is plain, faster."""
        self.walker = walker
        self.steps_left = STEPS_LIMIT + stored // FRAME_BYTES
        self.machine, self.code, self.memory, self.order = machine, code, memory, order
        self.mask = (1 << machine.bits) - 1
        self._trampolines: dict[int, bool] = {}
        self._is_code: dict[int, bool] = {}
        self._go: GoStacks | None = None
        self._functions: dict[tuple[int, int], GoFunction | None] = {}
        self.thread_pointer = 0
        self.scan = False  # whether callers may be guessed
        self._rows: dict[int, tuple[CfiRow, Fde] | DwarfError | None] = {}
        self._to_return: dict[int, list[CfiRow]] = {}
        self._is_behind_entry: dict[int, bool] = {}
        self._called: dict[int, int | None] = {}
        self._from_start: dict[tuple[int, int], CfiRow | None] = {}
        self._arm_rows: dict[tuple[int, int], list[CfiRow]] = {}
        self._leading_out: set[int] = set()  # records of generated code in the current stack that lead to a file's code

    def unwind(self, pc: int, registers: Mapping[int, int], thread_pointer: int = 0) -> Unwound:
        """The stack of a thread by its pc and registers (by DWARF number). Never raises for what a process is.

        `thread_pointer` is where its thread-local storage is: Go keeps the goroutine there.
        """
        machine = self.machine
        self.thread_pointer = thread_pointer
        self._leading_out.clear()
        values = dict(registers)
        frame = StackFrame(pc, values.get(machine.sp, 0), FoundBy.REGISTERS, exact=True)
        inner: list[StackFrame] = []
        outer: deque[StackFrame] = deque(maxlen=OUTER_KEPT)
        interrupted: set[tuple[int, int]] = set()
        count, cfa_before = 0, values.get(machine.sp, 0)
        after_signal = True  # of the innermost frame too nothing is known to be below
        while True:
            if self.walker is not None and self.steps_left > 0 and not (frame.exact and self.is_new(frame, values)):
                walked = self.walker.walk(
                    frame.pc, frame.exact, after_signal, cfa_before, values, min(INNER_KEPT, self.steps_left)
                )
                if walked is not None:
                    self.steps_left -= len(walked.frames)
                    for at, (pc, sp) in enumerate(walked.frames):
                        passed = StackFrame(pc, sp, FoundBy.CFI) if at else frame
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
                if step.from_trampoline:  # the one kind of frame that may be anywhere, so that nothing else ends a loop
                    place = step.pc, step.registers.get(self.machine.sp, 0)
                    if place in interrupted:
                        raise Ended(End.LOOP, f"{step.pc:#x} was interrupted before")
                    interrupted.add(place)
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
        """There are so many more bytes of memory."""
        self.steps_left += stored // FRAME_BYTES

    def charge(self, steps: int) -> None:
        """Raise Ended when all stacks together took too many steps."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise Ended(End.LIMIT)

    def is_on_other_stack(self, step: FrameStep, frame: StackFrame) -> bool:
        """Whether CFI leads to a stack in other memory, and there to behind a call: of code that switches stacks, as
        gcc's __morestack does (-fsplit-stack)."""
        if step.from_trampoline or step.found_by is not FoundBy.CFI:
            return False
        other = self.memory.region(step.cfa)
        if other is None or other == self.memory.region(frame.sp) or not self.is_code(step.pc - 1):
            return False
        is_read = self._bytes(step.pc - 1, 1) is not None
        return (
            (is_read and self.follows_call(step.pc)) or self.returns_from_signal(step.pc) or self.ends_context(step.pc)
        )

    def check(self, step: FrameStep, frame: StackFrame, cfa_before: int, after_signal: bool) -> None:
        """Raise Ended unless there is a caller, above what it called, in code."""
        if not step.pc and not step.from_trampoline and not frame.is_trampoline:
            raise Ended(End.COMPLETE)
        if not step.from_trampoline:
            if step.cfa < cfa_before or (step.cfa == cfa_before and not after_signal):
                raise Ended(End.LOOP, f"the frame of {frame.pc:#x} ends at {step.cfa:#x}, not above {cfa_before:#x}")
            if step.cfa == frame.sp and step.pc == frame.pc:
                raise Ended(End.LOOP, f"{step.pc:#x} is its own caller")
            if not self.is_code(step.pc - 1) and not self.is_code(step.pc):
                raise Ended(End.NOT_CODE, f"{step.pc:#x} is no address of code")

    # one step

    def step(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep:
        """The caller. Raises Ended."""
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
                    self._go = GoStacks(self.machine, self.word, self.is_code)
                called = self._go.step(function, frame, registers, self.thread_pointer)
                if called is not None:
                    return called
            found = self.row_of(frame)
            if found is not None:
                if self.begins_a_thread(frame, registers, *found):
                    raise Ended(End.COMPLETE)
                return self.by_cfi(frame, registers, *found)
            step = self.without_cfi(frame, registers)
        except Unreadable as error:
            raise Ended(End.UNREADABLE, str(error)) from None
        except DwarfError as error:
            raise Ended(End.DAMAGED, str(error)) from None
        if step is None:
            if self.machine.instructions == "arm":
                begins = self.is_behind_entry(frame)
            else:
                begins = self.code.entry_before(frame.lookup) is not None
            begins = begins or self.code.calls_main(frame.lookup)
            if begins or self.is_behind_clone(frame, registers):
                raise Ended(End.COMPLETE)
            raise Ended(End.NO_CFI, self.code.why_not(frame.lookup))
        return step

    def is_new(self, frame: StackFrame, registers: dict[int, int]) -> bool:
        """Whether a frame is right behind the system call that made its thread (begins_a_thread)."""
        if registers.get(self.machine.result, 1):
            return False
        try:
            found = self.row_of(frame)
        except DwarfError:
            return False
        return found is not None and self.begins_a_thread(frame, registers, *found)

    def is_behind_clone(self, frame: StackFrame, registers: dict[int, int]) -> bool:
        """The same where there is no CFI: by the number of the system call. Only for stacks without a caller: what
        fork makes is at the same place, with a copy of its parent's stack."""
        if not frame.exact or registers.get(self.machine.result, 1):
            return False
        return any(self._bytes(frame.pc - len(call), len(call)) == call for call in self.machine.clones)

    def begins_a_thread(self, frame: StackFrame, registers: dict[int, int], row: CfiRow, fde: Fde) -> bool:
        """Whether a frame is right behind the system call that made its thread, whose stack has no return address yet.

        glibc's clone has two FDEs: of the parent, and, some instructions behind the system call, of the child, whose
        return address is undefined. In the child the call returns 0.
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
            found = self._row(address)
            if found is not None and found[1] is not fde:
                rule = found[0].rules.get(found[1].cie.return_column)
                return rule is not None and rule.how is How.UNDEFINED
        return False

    def by_cfi(self, frame: StackFrame, registers: dict[int, int], row: CfiRow, fde: Fde) -> FrameStep:
        machine, memory = self.machine, self.memory
        if row.cfa is None:
            raise DwarfError(fde.section, fde.offset, "a row says what the CFA is", "none")
        self.charge(len(row.rules) // RULES_A_STEP)
        if row.cfa.expression is not None:
            self.charge(STEPS_AN_EXPRESSION)
            known = registers
            if machine.link is None:  # where the return address is pushed, its column is the pc: PLTs count by it
                known = {**registers, fde.cie.return_column: frame.pc}
            cfa = evaluate(row.cfa.expression, known, memory, bits=machine.bits, order=self.order)
        else:
            base = registers.get(row.cfa.register)
            if base is None:
                raise Ended(End.DAMAGED, f"the CFA at {frame.pc:#x} needs register {row.cfa.register}, not known there")
            cfa = base + row.cfa.offset & self.mask
        column = fde.cie.return_column
        values = {register: registers[register] for register in machine.kept if register in registers}
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
                    value = None  # another register, that the frames above may do without
                    if cfa + number < frame.sp:  # CFI does not say that it was popped
                        is_back = self.kept_to_return(frame, register)
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
            raise Ended(End.DAMAGED, f"the return address at {frame.pc:#x} is in register {column}, not known there")
        signal = fde.cie.signal
        if not signal:
            pc &= machine.address_mask
        found_by = FoundBy.SIGNAL if signal else OTHER_TABLES.get(fde.section, FoundBy.CFI)
        of_dead = dead.pop() if len(dead) == 1 else 0
        return FrameStep(pc, values, cfa, found_by, exact=signal, from_trampoline=signal, dead=of_dead)

    def row_of(self, frame: StackFrame) -> tuple[CfiRow, Fde] | None:
        """The row that holds in a frame. A trampoline's FDE counts at the return address itself."""
        if not frame.exact:
            found = self._row(frame.pc)
            if found is not None and found[1].cie.signal:
                return found
        return self._row(frame.lookup)

    def _row(self, address: int) -> tuple[CfiRow, Fde] | None:
        if address not in self._rows:
            try:
                found = self.code.fde(address)
                self._rows[address] = None if found is None else (found[0].row(address - found[1]), found[0])
            except DwarfError as error:
                self._rows[address] = error
        known = self._rows[address]
        if isinstance(known, DwarfError):
            raise known
        return known

    def ends_context(self, pc: int) -> bool:
        """Whether a return address is what makecontext put below the function that it runs: code that is behind no
        call, and begins by taking its stack pointer from another register. Its CFI, where it has some, is wrong."""
        if not any(self._bytes(pc, len(code)) == code for code in self.machine.contexts):
            return False
        if self.machine.instructions == "arm":  # glibc's is A32, where two instructions can look like a call of Thumb
            return self.call_before(pc) is not False
        return not self.follows_call(pc)

    def signal_row(self, frame: StackFrame) -> bool:
        try:
            found = self.row_of(frame)
        except DwarfError:
            return False
        return found is not None and found[1].cie.signal

    # signals

    def trampoline(self, frame: StackFrame) -> int | None:
        """Which of the machine's trampolines a frame is in, if any."""
        for index, form in enumerate(self.machine.trampolines):
            key = frame.pc << 4 | index
            if key not in self._trampolines:
                self._trampolines[key] = self._bytes(frame.pc, len(form.code)) == form.code
            if self._trampolines[key]:
                return index
        return None

    def interrupted(self, frame: StackFrame, index: int) -> FrameStep:
        """What a signal interrupted: the kernel saved its registers on the stack."""
        form = self.machine.trampolines[index]
        values = {register: self.word(frame.sp + at) for register, at in form.registers.items()}
        pc = self.word(frame.sp + form.pc_at)
        return FrameStep(pc, values, values[self.machine.sp], FoundBy.SIGNAL, exact=True, from_trampoline=True)

    # where no CFI answers

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
        """The caller by the instructions from here to a return; else by those from the start of the function that a
        call leads to whose return address is on the stack. None where neither leads to a word behind a call."""
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
        """The caller by the instructions of 32-bit ARM from the function's start to here, or from here to a return.

        The start is known by a symbol or, of the innermost function, by the call that left its return address in lr.
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
        """Rows of code of 32-bit ARM without tables, the most certain first."""
        pc, read = frame.pc, self.memory.read
        known = self.code.function(frame.lookup)
        is_thumb = None if frame.exact else self.call_before(pc)
        if known is not None:
            start, end, is_thumb = known
            self.charge(ARM_STEPS)
            row = ArmPath(read, is_thumb).from_start(start, end, pc, frame.exact)
            if row is not None:
                yield row
        elif frame.exact:
            link = registers.get(LINK_OF_ARM, 0)
            is_thumb = bool(link & 1)  # calls of static functions stay in one instruction set
            target = arm_call_target(link & self.machine.address_mask, read)
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
        """Whether the call before a return address of 32-bit ARM is Thumb's; None where there is none."""
        try:
            return call_before(pc, self.memory.read)
        except Unreadable:
            return None

    def rows_to_return(self, pc: int) -> list[CfiRow]:
        """A row for each way from some code of x86 to a return."""
        if pc not in self._to_return:
            self.charge(STEPS_OF_INSTRUCTIONS)
            self._to_return[pc] = CodePath(self.machine.bits, self.memory.read).to_return(pc)
        return self._to_return[pc]

    def is_behind_entry(self, frame: StackFrame) -> bool:
        """Whether a frame is in the code that a program or its loader is entered by, which nobody called."""
        if frame.pc not in self._is_behind_entry:
            entry = self.code.entry_before(frame.lookup) if self.machine.instructions in ("x86", "arm") else None
            is_behind = False
            if entry is not None and self.machine.instructions == "arm":
                known = self.code.function(frame.lookup)
                is_thumb = bool(entry & 1)
                is_behind = known is None or known[0] == entry & ~1
                is_behind = is_behind and ArmPath(self.memory.read, is_thumb).is_frameless(entry & ~1, frame.pc)
            elif entry is not None:
                self.charge(STEPS_OF_INSTRUCTIONS)
                is_behind = CodePath(self.machine.bits, self.memory.read).leads_to(entry, frame.pc)
            self._is_behind_entry[frame.pc] = is_behind
        return self._is_behind_entry[frame.pc]

    def is_outermost(self, frame: StackFrame) -> bool:
        """Whether nobody called the code that a frame returns to: a program's entry, or that which ends a thread."""
        exits = self.machine.exits
        return self.is_behind_entry(frame) or any(self._bytes(frame.pc, len(code)) == code for code in exits)

    def by_outermost(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """The caller, if that is code which nobody called: where its return address is the first on the stack that is
        behind any call. Had there been a frame between, its return address would be there, too. For functions without
        CFI that never return, such as those that call main and end the process."""
        machine, sp = self.machine, registers[self.machine.sp]
        bounds = self.memory.region(sp)
        if bounds is None or machine.instructions != "x86":
            return None
        self.charge(ENTRY_WORDS // RULES_A_STEP)
        for at in range(sp, min(sp + ENTRY_WORDS * machine.word, bounds[1] - machine.word + 1), machine.word):
            pc = self.pointer(at)
            if pc is None:
                return None
            if not self.is_code(pc - 1) or not self.follows_call(pc):
                continue
            if not self.is_outermost(StackFrame(pc, at + machine.word, FoundBy.INSTRUCTIONS)):
                return None
            return FrameStep(pc, {machine.sp: at + machine.word}, at + machine.word, FoundBy.INSTRUCTIONS)
        return None

    def kept_to_return(self, frame: StackFrame, register: int) -> bool:
        """Whether a function has the value of a register back already: on no way from here to a return it changes."""
        if not frame.exact or self.machine.instructions != "x86":
            return False
        rows = self.rows_to_return(frame.pc)
        return bool(rows) and all(register not in row.rules for row in rows)

    def by_call(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """The caller by a return address on the stack, behind a call of a function whose instructions from its start
        to here put as much on the stack as lies before that address."""
        machine, sp = self.machine, registers[self.machine.sp]
        bounds = self.memory.region(sp)
        if bounds is None:
            return None
        self.charge(CALL_WORDS // RULES_A_STEP)
        size = min(CALL_WORDS, (bounds[1] - sp) // machine.word) * machine.word
        words = self._bytes(sp, size) or b""
        tried = 0
        for at in range(0, len(words), machine.word):
            pc = int.from_bytes(words[at : at + machine.word], self.order)
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
            if row is not None and row.cfa is not None and row.cfa.offset == at + machine.word:
                return self.by_row(frame, registers, row)
            tried += 1
            if tried >= CALLS_TRIED:
                break
        return None

    def by_row(self, frame: StackFrame, registers: dict[int, int], row: CfiRow) -> FrameStep | None:
        """The caller by a row that instructions say; None unless its return address is behind a call, or returns from
        a signal handler, and its frame above this one."""
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
        """The caller of a function that has done no more than push `pushed` words."""
        machine = self.machine
        values = {register: registers[register] for register in machine.kept if register in registers}
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
        """How many words a function has pushed at its beginning or end: 0 or 1; None elsewhere."""
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
        """Whether the return address of a function that keeps nothing is behind a call of the function the frame is in,
        and that doesn't begin by keeping the frame pointer."""
        if self.machine.instructions in ("", "arm"):
            return False
        link = self.machine.link
        pc = self.word(frame.sp) if link is None else registers[link] & self.machine.address_mask
        target = self.call_target(pc)
        if target is None:
            return False
        return 0 <= frame.pc - target < LEAF_BYTES and self.pushed(target) is None

    def by_frame_pointer(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """The caller by the frame record that the frame pointer leads to; None unless it holds."""
        machine = self.machine
        fp = registers.get(machine.fp, 0)
        if not fp and frame.found_by is FoundBy.FRAME_POINTER:  # the outermost function is entered with 0
            raise Ended(End.COMPLETE)
        if machine.frame_record is None:
            return None
        caller_at, return_at, size = machine.frame_record
        bounds = self.memory.region(frame.sp)
        if bounds is None or fp % machine.word or not frame.sp <= fp <= bounds[1] - size:
            return None
        pc = self.word(fp + return_at) & machine.address_mask
        if not pc and (self.word(fp + caller_at) or frame.found_by is not FoundBy.FRAME_POINTER):
            return None  # zeros anywhere on the stack are no end
        is_return = self.follows_call(pc) or self.returns_from_signal(pc) or self.ends_context(pc)
        if pc and not (self.is_code(pc - 1) and (is_return or self.leads_out(frame, fp))):
            return None
        values = {register: registers[register] for register in machine.kept if register in registers}
        values[machine.fp], values[machine.sp] = self.word(fp + caller_at), fp + size
        return FrameStep(pc, values, fp + size, FoundBy.FRAME_POINTER)

    def leads_out(self, frame: StackFrame, fp: int) -> bool:
        """Whether a frame record of generated code begins a chain that leads to a return address after a call in a
        file's code. Interpreters, as Java's, return to code that no call precedes."""
        machine = self.machine
        bounds = self.memory.region(frame.sp)
        if machine.frame_record is None or bounds is None or not self.code.is_generated(frame.lookup):
            return False
        caller_at, return_at, size = machine.frame_record
        records: list[int] = []
        while fp not in self._leading_out:
            if len(records) == GENERATED_FRAMES or fp % machine.word or fp > bounds[1] - size:
                return False
            self.charge(len(records) % RULES_A_STEP == 0)
            records.append(fp)
            pc, caller = self.pointer(fp + return_at), self.pointer(fp + caller_at)
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
        """The caller by the word at the stack pointer, where each frame keeps its caller's; None unless it holds.

        Where a thread is, the function may have no frame of its own yet: then its return address is in the link
        register still, behind another call than that of the frame on the stack.
        """
        machine = self.machine
        if machine.back_chain is None or machine.link is None:
            return None
        sp = registers[machine.sp]
        chain, bounds = self.word(sp), self.memory.region(sp)
        if not chain and not frame.exact:
            raise Ended(End.COMPLETE)
        values = {register: registers[register] for register in machine.kept if register in registers}
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
        """Whether a return address can be of a call by the function that a thread is in: it is shortly before."""
        return 0 <= pc - link < LEAF_BYTES

    def returns_from_signal(self, pc: int) -> bool:
        """Whether a return address is that of a signal handler."""
        frame = StackFrame(pc, 0, FoundBy.FRAME_POINTER)
        return self.trampoline(frame) is not None or self.signal_row(frame)

    # guesses

    def scanned(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        """A caller by the first word on the stack that may be its return address: a guess, for old ones lie there, too.

        Such a word is behind a call, and of this function where that is known; or it returns from a signal handler.
        """
        machine = self.machine
        sp = registers[machine.sp]
        try:
            self.charge(SCAN_WORDS // WORDS_A_STEP)
            for at in range(sp, sp + SCAN_WORDS * machine.word, machine.word):
                pc = self.word(at) & machine.address_mask
                if not pc or not self.is_code(pc - 1):
                    continue
                if self.may_have_called(pc, frame.pc) or self.returns_from_signal(pc):
                    values = {register: registers[register] for register in machine.kept if register in registers}
                    values[machine.sp] = at + machine.word
                    return FrameStep(pc, values, at + machine.word, FoundBy.SCAN)
        except (Unreadable, Ended):
            pass
        return None

    def may_have_called(self, pc: int, callee: int) -> bool:
        """Whether the instruction before `pc` is a call: indirect, or of a function that `callee` may be in."""
        if self._bytes(pc - CALL_BYTES, CALL_BYTES) is None or not self.follows_call(pc):
            return False
        target = self.call_target(pc)
        if target is None:
            return True
        code = self._bytes(target, len(ENDBR64) + 2) or b""
        return 0 <= callee - target < FUNCTION_BYTES or code.removeprefix(ENDBR64).startswith(JUMP_INDIRECT)

    def call_target(self, pc: int) -> int | None:
        """Where the direct call before a return address leads to; None for another instruction."""
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
        """The function that the call before a return address leads to, also through a pointer that the linker keeps for
        functions of other files (the GOT): called itself, or jumped to by a stub of the PLT. None for another one."""
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
        behind = target + len(code) - len(jump) + 6
        return self.pointer(behind + int.from_bytes(jump[2:6], "little", signed=True))

    def pointer(self, address: int) -> int | None:
        """The word at an address; None where that can't be read."""
        try:
            return self.word(address)
        except Unreadable:
            return None

    def follows_call(self, pc: int) -> bool:
        """Whether the instruction before a return address can be a call; true where its bytes can't be read."""
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

    # reading

    def is_code(self, address: int) -> bool:
        page = address >> 12
        known = self._is_code.get(page)
        if known is None:
            known = self._is_code[page] = self.code.is_code(address)
        return known

    def word(self, address: int) -> int:
        return int.from_bytes(self.memory.read(address & self.mask, self.machine.word), self.order)

    def _bytes(self, address: int, size: int) -> bytes | None:
        try:
            return self.memory.read(address, size)
        except Unreadable:
            return None
