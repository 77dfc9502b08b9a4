"""The variables of the frames of a process, live or in a core.

    values = ProcessValues(machine, order, code, memory, open_debug_info)
    for frame, functions in zip(unwound.frames, values.of(unwound, states)):
        for variables in functions:  # of the function and of each call inlined there, innermost first
            print([f"{variable.name} = {variable.value}" for variable in variables])

A file's debug info is opened when the first frame in it is read. A damaged DIE, location or type costs only the
variables that need it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from whence._base.errors import DwarfError, WhenceError
from whence._base.lru import Lru
from whence._base.window import Cursor
from whence.dwarf.die_reader import FLAGS, DieReader
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import variables as kernel
from whence.dwarf.kernels.units import DIE as DIE_OFFSET
from whence.dwarf.kernels.units import OFFSET
from whence.types.containers import container_value
from whence.types.decoding import Budget, Decoder, Limits
from whence.types.locating import BaseKind, calculate, locate
from whence.types.model import Language, Type, TypeKind, Value, Variable
from whence.types.scopes import Declared, FunctionScope, Plan, UnitReader, address_of, is_tail_call
from whence.types.storage import OPTIMIZED_OUT, NoValue, Piece, Storage
from whence.types.symbols import SymbolNames, value_of_symbol
from whence.unwind.recording import FrameState

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.dwarf.die_reader import Die
    from whence.dwarf.info import DebugInfo
    from whence.objects.interface import ObjectFile
    from whence.unwind.memory import Memory
    from whence.unwind.modules import CoreCode, Module
    from whence.unwind.registers import Machine
    from whence.unwind.steps import StackFrame, Unwound

OpenDebugInfo = Callable[["Module"], "tuple[DebugInfo | None, Sequence[ObjectFile]]"]

CHAINS_KEPT = 4096
DIES_ALLOWANCE, BYTES_A_DIE = 1 << 20, 2  # DIEs that are read of a file's debug info
ENTRIES_A_DIE = 8  # entries of location lists
PARTS, BYTES_A_PART = 1 << 16, 64  # of all values of a process together
MOST_GO_TYPES = 1 << 18  # types of a Go program
GO_TYPE_TAGS = frozenset({
    constants.DW_TAG_base_type, constants.DW_TAG_structure_type, constants.DW_TAG_pointer_type,
    constants.DW_TAG_typedef, constants.DW_TAG_array_type, constants.DW_TAG_subroutine_type,
})  # fmt: skip
CHECKED_EVERY = 16  # variables, after which the work done is compared with its limit
EXPRESSIONS = 256  # that one variable needs: its location, bounds, values in callers
TAIL_CALLS = 16  # functions that are followed along tail calls
ON_HEAP = "&"  # begins the name of a pointer to a variable of Go that escapes to the heap
FUNCTION_NAMES = (constants.DW_AT_linkage_name, constants.DW_AT_MIPS_linkage_name)
CALL_VALUES = (constants.DW_AT_call_value, constants.DW_AT_GNU_call_site_value)
CALL_TARGETS = (constants.DW_AT_call_target, constants.DW_AT_GNU_call_site_target)
CALL_ORIGINS = (constants.DW_AT_call_origin, constants.DW_AT_abstract_origin)
CALL_PARAMETERS = (constants.DW_AT_call_parameter, constants.DW_AT_abstract_origin)


class FileValues:
    """The debug info of one file: scopes at its vaddrs, and names of its symbols."""

    def __init__(self, info: DebugInfo | None, files: Sequence[ObjectFile], demangle: Callable[[str], str]) -> None:
        self.info, self._files, self._demangle = info, files, demangle
        self._dies = None if info is None else DieReader(info)
        self._units: dict[int, UnitReader] = {}  # by id of the reader of DIEs
        self._symbols: SymbolNames | None = None
        self._chains: Lru[int, list[FunctionScope]] = Lru(CHAINS_KEPT)  # by vaddr
        self._most_cost = DIES_ALLOWANCE + (0 if info is None else len(info.sections.debug_info) // BYTES_A_DIE)
        self._named: dict[str, list[FunctionScope]] = {}  # functions by the names of their symbols
        self._go_types: dict[int, int] | None = None  # key of a type by the offset of its runtime type
        self._go_start: int | None = None  # of runtime types

    def _reader_of(self, dies: DieReader) -> UnitReader:
        if id(dies) not in self._units:
            self._units[id(dies)] = UnitReader(dies)
        return self._units[id(dies)]

    @property
    def is_exhausted(self) -> bool:
        """True if more of the debug info was read than its size warrants: its functions have no variables then."""
        readers = self._units.values()
        cost = sum(reader.dies.cost + reader.lists.entries_read // ENTRIES_A_DIE for reader in readers)
        return cost > self._most_cost

    def chain_at(self, vaddr: int) -> list[FunctionScope]:
        """Return the function at a vaddr and the calls inlined into it there, innermost first."""
        if vaddr not in self._chains:
            self._chains[vaddr] = [] if self.is_exhausted else self._read_chain(vaddr)
        return self._chains[vaddr]

    def _read_chain(self, vaddr: int) -> list[FunctionScope]:
        if self._dies is None:
            return []
        for dies, unit in self._dies.units_at(vaddr):
            chain = self._reader_of(dies).chain(unit, vaddr)
            if chain:
                return chain
        return []

    def chain_of(self, name: str) -> list[FunctionScope]:
        """Return the function whose symbol has a name, as `chain_at` does at its start; [] if there is none."""
        if name not in self._named:
            starts = (value_of_symbol(file, name) for file in self._files)
            start = next((start for start in starts if start), None)
            self._named[name] = [] if start is None else self.chain_at(start)
        return self._named[name]

    def go_type(self, vaddr: int) -> Type | None:
        """Return the type of Go whose runtime type is at a vaddr; the first use reads the types of all units."""
        if self._go_types is None:
            self._go_types = dict(islice(self._runtime_types(), MOST_GO_TYPES))
            starts = (value_of_symbol(file, "runtime.types") for file in self._files)
            self._go_start = next((start for start in starts if start is not None), None)
        if self._go_start is None or self._dies is None:
            return None
        key = self._go_types.get(vaddr - self._go_start)
        return None if key is None else self._reader_of(self._dies).types.type_at(key)

    def _runtime_types(self) -> Iterator[tuple[int, int]]:
        """Yield the offset of each runtime type in the table of types, and the key of the type's DIE."""
        dies = self._dies
        for offset in () if dies is None else dies.units.units.column(DIE_OFFSET):
            root = dies.die(offset) if dies is not None else None
            if root is None or dies is None or self._reader_of(dies).types.language_of(root) is not Language.GO:
                continue
            for key, tag in dies.below(root):
                die = dies.die(key) if tag in GO_TYPE_TAGS else None
                number = None if die is None else address_of(die, constants.DW_AT_go_runtime_type)
                if number:
                    yield number, key

    def symbol(self, vaddr: int) -> str:
        """Return the function or object that contains a vaddr, as `name` or `name+8`; "" if there is none."""
        if self._symbols is None:
            self._symbols = SymbolNames(self._files, self._demangle)
        return self._symbols.at(vaddr)


class ProcessValues:
    """Reads the variables of frames of one process.

    Args:
        machine, order: what the process runs on.
        code: its executable memory, by which the file of a frame is found.
        memory: its memory.
        open_debug_info: returns the debug info of a mapped file, and the files with its symbols.
        stored: bytes of memory available; what all values may cost depends on it.
        limits: how much of each value is read.
        demangle: makes names of symbols readable.
    """

    def __init__(
        self, machine: Machine, order: ByteOrder, code: CoreCode, memory: Memory, open_debug_info: OpenDebugInfo, *,
        stored: int = 0, limits: Limits | None = None, demangle: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self.machine, self.order, self.code, self.memory = machine, order, code, memory
        self._open_debug_info, self._demangle = open_debug_info, demangle
        self._files: dict[int, FileValues] = {}  # by id of the module
        self._loaded: list[tuple[int, int, int, Module]] | None = None
        self._starts: list[int] = []
        self.expressions_left = EXPRESSIONS  # of the variable that is being read
        self.decoder = Decoder(
            memory, order, machine.bits, self.symbol, self.runtime_type, limits or Limits(),
            Budget(PARTS + stored // BYTES_A_PART), container_value,
        )  # fmt: skip

    def of(self, unwound: Unwound, states: Sequence[FrameState]) -> list[tuple[tuple[Variable, ...], ...]]:
        """Return the variables of each frame: of its function and of each call inlined there, innermost first.

        A frame without debug info, or of which no state is known, has ().
        """
        frames = [self._context(frame, state) for frame, state in zip(unwound.frames, states, strict=False)]
        for context, caller, frame in zip(frames, frames[1:], unwound.frames[1:], strict=False):
            if context is not None and not frame.exact and not frame.is_trampoline:
                context.caller = caller
        result = [() if context is None else context.variables() for context in frames]
        return result + [()] * (len(unwound.frames) - len(result))

    def file_of(self, module: Module) -> FileValues:
        """Return the debug info of a mapped file, opened at the first use."""
        if id(module) not in self._files:
            info: DebugInfo | None = None
            files: Sequence[ObjectFile] = () if module.elf is None else (module.elf,)
            with suppress(WhenceError, OSError):
                info, files = self._open_debug_info(module)
            self._files[id(module)] = FileValues(info, files, self._demangle)
        return self._files[id(module)]

    def _context(self, frame: StackFrame, state: FrameState) -> FrameContext | None:
        module, vaddr = self.code.module_at(frame.lookup)
        if module is None or frame.is_trampoline:
            return None
        file = self.file_of(module)
        try:
            chain = file.chain_at(vaddr)
        except WhenceError:
            return None
        return FrameContext(self, file, chain, frame, state, frame.lookup - vaddr) if chain else None

    def runtime_type(self, address: int) -> Type | None:
        """Return the type of Go that a runtime type at an address describes; None if it is unknown."""
        loaded = self._loaded_at(address)
        if loaded is None:
            return None
        bias, module = loaded
        try:
            return self.file_of(module).go_type(address - bias)
        except WhenceError:
            return None

    def symbol(self, address: int) -> str:
        """Return the function or object at a runtime address, as `name` or `name+8`; "" if there is none."""
        loaded = self._loaded_at(address)
        if loaded is None:
            return ""
        bias, module = loaded
        try:
            return self.file_of(module).symbol(address - bias)
        except WhenceError:
            return ""

    def _loaded_at(self, address: int) -> tuple[int, Module] | None:
        """Return the file that is loaded at a runtime address, and its bias; None if there is none."""
        if self._loaded is None:
            self._loaded = sorted(self.code.loaded(), key=lambda loaded: loaded[0])
            self._starts = [start for start, _, _, _ in self._loaded]
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._loaded[index][1]:
            return None
        return self._loaded[index][2:]


class FrameContext:
    """One frame: what location expressions refer to (locating.Surroundings)."""

    def __init__(
        self, process: ProcessValues, file: FileValues, chain: list[FunctionScope], frame: StackFrame,
        state: FrameState, bias: int,
    ) -> None:  # fmt: skip
        self.process, self.file, self.chain, self.bias = process, file, chain, bias
        self.frame, self.state = frame, state
        self.bits, self.order, self.memory = process.machine.bits, process.order, process.memory
        self.caller: FrameContext | None = None
        self.site: Die | None = None  # of the jump to the callee, in a function that left its frame by it
        self.unit = chain[-1].file
        self.vaddr = frame.lookup - bias
        self._die: Die | None = self.unit.dies.die(chain[-1].key)  # of the variable that is being read
        self._frame_base: int | NoValue | None = None
        self._is_in_base = False

    @property
    def function(self) -> int:
        """The key of the function's DIE."""
        return self.chain[-1].key

    def variables(self) -> tuple[tuple[Variable, ...], ...]:
        """Return the variables of the function and of each call inlined there, innermost first."""
        return tuple(tuple(self._variables(scope)) for scope in self.chain)

    def _variables(self, scope: FunctionScope) -> Iterator[Variable]:
        for index, declared in enumerate(scope.variables):
            if self.process.decoder.budget.left < 0 or (index % CHECKED_EVERY == 0 and self.file.is_exhausted):
                return
            plan = self.unit.plan(declared, self.vaddr)
            name, of = declared.name, plan.type
            if name.startswith(ON_HEAP) and of.plain.language is Language.GO and of.plain.kind is TypeKind.POINTER:
                name, of, value = name.removeprefix(ON_HEAP), of.plain.target, self.value_on_heap(plan)
            else:
                value = self.value_of(plan)
            yield Variable(name, of.name, value, declared.is_argument, declared.line)

    def value_of(self, plan: Plan) -> Value:
        """Return the value of a variable."""
        decoder = self.process.decoder
        if plan.constant is None and plan.located is None:
            if plan.type.plain.size == 0:  # Rust's (), and structures without members
                return decoder.decode(plan.type, Storage(self.memory, (Piece(None),)))
            return decoder.missing(plan.type, OPTIMIZED_OUT)
        self.process.expressions_left = EXPRESSIONS
        try:
            storage = self.storage_of(plan)
        except NoValue as error:
            return decoder.missing(plan.type, str(error))
        return decoder.decode(plan.type, storage, self)

    def value_on_heap(self, plan: Plan) -> Value:
        """Return the value of a variable of Go that outlives its function, by the pointer to it."""
        decoder, target = self.process.decoder, plan.type.plain.target
        self.process.expressions_left = EXPRESSIONS
        try:
            address = decoder.number(self.storage_of(plan), self.bits // 8)
        except NoValue as error:
            return decoder.missing(target, str(error))
        return decoder.decode(target, Storage.at(self.memory, address), self)

    def storage_of(self, plan: Plan) -> Storage:
        """Return where a variable is. Raises NoValue."""
        if plan.constant is not None:
            return self._constant(*plan.constant, plan.type)
        if plan.located is None:
            raise NoValue(OPTIMIZED_OUT)
        self._die = plan.located[1]
        return locate(plan.located[0], self)

    def _constant(self, die: Die, value: tuple[int, int, int], variable_type: Type) -> Storage:
        kind, number, _ = value
        size = variable_type.plain.size or 0
        if kind == kernel.BLOCK:
            data = self.unit.dies.block(die, constants.DW_AT_const_value)
        elif kind in (kernel.NUMBER, kernel.ADDRESS) and 0 < size <= 16:
            signed = number - (1 << 64) if number >> 63 else number
            data = (signed & (1 << 8 * size) - 1).to_bytes(size, self.order)
        else:
            raise NoValue("its constant value has an unknown form")
        return Storage(self.memory, (Piece(None, data=data),))

    # what expressions refer to

    def charge(self) -> None:
        self.process.expressions_left -= 1
        if self.process.expressions_left < 0:
            raise NoValue(f"its value needs more than {EXPRESSIONS} expressions")

    def register(self, number: int) -> int:
        value = self.state.registers.get(number)
        if value is None:
            name = self.process.machine.names.get(number, f"number {number}")
            raise NoValue(f"the value of register {name} is unknown")
        return value

    def register_bytes(self, number: int) -> bytes:
        wide = self.state.wide.get(number)
        if wide is not None:
            return wide
        return self.register(number).to_bytes(self.bits // 8, self.order)

    def frame_base(self) -> int:
        if self._frame_base is None:
            if self._is_in_base:
                raise NoValue("its function has a frame base that refers to itself")
            self._is_in_base = True
            try:
                self._frame_base = self._read_frame_base()
            except NoValue as error:
                self._frame_base = error
            finally:
                self._is_in_base = False
        base = self._frame_base
        if isinstance(base, NoValue):
            raise NoValue(str(base))
        return base

    def _read_frame_base(self) -> int:
        die = self.unit.dies.die(self.function)
        for origin in () if die is None else self.unit.dies.origins(die):
            if constants.DW_AT_frame_base not in origin.attributes:
                continue
            kind, value, _ = origin.attributes[constants.DW_AT_frame_base]
            expression: bytes | None = self.unit.dies.block(origin, constants.DW_AT_frame_base)
            if kind != kernel.BLOCK:
                expression = self.unit.list_entry(origin, kind, value, self.vaddr)
            if expression:
                return calculate(expression, self)
        raise NoValue("the frame base of its function is unknown")

    def cfa(self) -> int:
        if self.state.cfa is None:
            raise NoValue("the canonical frame address is unknown")
        return self.state.cfa

    def relocated(self, vaddr: int) -> int:
        return vaddr + self.bias & (1 << self.bits) - 1

    def indexed(self, index: int) -> int:
        if self._die is None:
            raise NoValue("an address is in no unit")
        address = self.unit.lists.address(self.unit.list_unit(self._die), index)
        if address is None:
            raise NoValue(f"entry {index} of .debug_addr does not exist")
        return address

    def _key_in_unit(self, offset: int) -> int:
        if self._die is None:
            raise NoValue("its location expression is in no unit")
        key: int = self.unit.dies.unit_value(self._die, OFFSET) + offset | self._die.key & FLAGS
        return key

    def base_kind(self, offset: int) -> BaseKind:
        base = self.unit.types.type_at(self._key_in_unit(offset)).plain
        if not base.size or base.size > 16 or (base.kind not in INTEGERS and base.kind is not TypeKind.FLOAT):
            raise NoValue("its location expression is damaged: a typed value without a base type")
        is_signed = base.encoding in (constants.DW_ATE_signed, constants.DW_ATE_signed_char)
        return BaseKind(base.size, is_signed, base.kind is not TypeKind.FLOAT)

    def variable_value(self, key: int) -> int:
        """Return the value of a variable that another's type refers to, such as the length of an array."""
        die = self.unit.dies.die(key)
        if die is None:
            raise NoValue("a variable that its type refers to is missing")
        declared = Declared("", tuple(self.unit.dies.origins(die)), False, 0)
        plan = self.unit.plan(declared, self.vaddr)
        size = min(plan.type.plain.size or self.bits // 8, 16)
        return int.from_bytes(self.storage_of(plan).read(size), self.order)

    # values at the entry of the function

    def entry_value(self, expression: bytes, depth: int) -> int:
        return self._passed(lambda site: self._parameter_in(site, expression), depth)

    def parameter_value(self, offset: int, depth: int) -> int:
        key = self._key_in_unit(offset)
        return self._passed(lambda site: self._parameter_named(site, key), depth)

    def _passed(self, parameter_of: Callable[[Die], Die | None], depth: int) -> int:
        """Return the value that the caller passed for a parameter, which `parameter_of` finds at the call's DIE.

        The call must be known to be one of this function, and the function must not call itself by a tail call.
        """
        caller = self.caller
        if caller is None:
            raise NoValue(OPTIMIZED_OUT)
        site = caller.site or caller.unit.call_site(caller.function, caller.frame.pc - caller.bias)
        if site is not None and not self._is_called_by(caller, site):
            jumping = self._tail_caller(caller, site)
            site = None if jumping is None else jumping.site
            caller = jumping or caller
        if site is None or self._can_tail_call_itself():
            raise NoValue(OPTIMIZED_OUT)
        own_caller, self.caller = self.caller, caller
        try:
            parameter = parameter_of(site)
        finally:
            self.caller = own_caller
        for name in CALL_VALUES:
            if parameter is not None and name in parameter.attributes:
                die, caller._die = caller._die, parameter
                try:
                    return calculate(caller.unit.dies.block(parameter, name), caller, depth=depth)
                finally:
                    caller._die = die
        raise NoValue(OPTIMIZED_OUT)

    def _tail_caller(self, caller: FrameContext, site: Die) -> FrameContext | None:
        """Return the frame of the function that jumped here, without registers.

        The caller called it, or a function that jumped to it, and so on. None unless each of these functions has
        exactly one tail call.
        """
        jumping, seen = caller, set[int]()
        while caller.unit is self.unit and len(seen) < TAIL_CALLS:
            key = next(filter(None, (site.reference(name) for name in CALL_ORIGINS)), 0)
            between = (self.unit.definition(key) or self._defined(key)) if key else None
            if between is None or between in seen:
                return None
            seen.add(between)
            sites = [each for each in self.unit.calls(between) if is_tail_call(each)]
            if len(sites) != 1:
                return None
            (site,) = sites
            previous, scope = jumping, FunctionScope(between, self.unit, False, ())
            jumping = FrameContext(self.process, self.file, [scope], caller.frame, FrameState({}), caller.bias)
            jumping.caller, jumping.site = previous, site
            if self._is_called_by(caller, site):
                return jumping
        return None

    def _defined(self, key: int) -> int | None:
        """Return the DIE with the code of a function that is declared by a DIE and defined in another unit."""
        dies = self.unit.dies
        die = dies.die(key)
        name = "" if die is None else dies.name(die, FUNCTION_NAMES) or dies.name(die)
        chain = self.file.chain_of(name) if name else []
        return chain[-1].key if chain and chain[-1].file is self.unit else None

    def _parameter_in(self, site: Die, expression: bytes) -> Die | None:
        """Return the parameter of a call that is passed in the register of an expression."""
        number = register_of(expression)
        if number is None:
            raise NoValue("the value at the entry of an expression is not supported")
        assert self.caller is not None
        dies = self.caller.unit.dies
        for parameter in self.caller.unit.parameters(site):
            if register_of(dies.block(parameter, constants.DW_AT_location)) == number:
                return parameter
        return None

    def _parameter_named(self, site: Die, key: int) -> Die | None:
        """Return the parameter of a call that is passed for the parameter with a key."""
        assert self.caller is not None
        if self.caller.unit is not self.unit:
            return None
        for parameter in self.caller.unit.parameters(site):
            if any(parameter.reference(name) == key for name in CALL_PARAMETERS):
                return parameter
        return None

    def _names(self) -> tuple[set[int], str]:
        """Return the keys of the DIEs of this function, and its name."""
        dies = self.unit.dies
        die = dies.die(self.function)
        if die is None:
            return set(), ""
        return {origin.key for origin in dies.origins(die)}, dies.name(die, FUNCTION_NAMES) or dies.name(die)

    def _is_called_by(self, caller: FrameContext, site: Die) -> bool:
        """Return True if a call is one of this function."""
        dies = caller.unit.dies
        for name in CALL_ORIGINS:
            key = site.reference(name)
            target = dies.die(key) if key else None
            if target is not None:
                call = self.function, caller.unit, key
                if call not in self.unit.called_by:
                    self.unit.called_by[call] = self._is_function_of(caller.unit, target)
                return self.unit.called_by[call]
        for name in CALL_TARGETS:
            if name in site.attributes:
                die, caller._die = caller._die, site
                try:
                    target_address = calculate(dies.block(site, name), caller)
                finally:
                    caller._die = die
                return target_address == self._start()
        return False

    def _is_function_of(self, unit: UnitReader, target: Die) -> bool:
        """Return True if a DIE that a call in a unit refers to is this function."""
        keys, called = self._names()
        if unit is self.unit and keys & {origin.key for origin in unit.dies.origins(target)}:
            return True
        return bool(called) and called == (unit.dies.name(target, FUNCTION_NAMES) or unit.dies.name(target))

    def _start(self) -> int | None:
        die = self.unit.dies.die(self.function)
        low = None if die is None else address_of(die, constants.DW_AT_low_pc)
        return None if low is None else self.relocated(low)

    def _can_tail_call_itself(self) -> bool:
        """Return True if a chain of tail calls may lead from this function to itself, or if that is unknown."""
        known = self.unit.tail_recursive
        if self.function not in known:
            known[self.function] = self._may_return_by_itself()
        return known[self.function]

    def _may_return_by_itself(self) -> bool:
        dies = self.unit.dies
        mine, _ = self._names()
        waiting, seen = [self.function], {self.function}
        for _ in range(TAIL_CALLS):
            if not waiting:
                return False
            for site in self.unit.calls(waiting.pop()):
                if not is_tail_call(site):
                    continue
                key = next(filter(None, (site.reference(name) for name in CALL_ORIGINS)), 0)
                target = dies.die(key) if key else None
                if target is None:
                    return True
                if mine & {origin.key for origin in dies.origins(target)}:
                    return True
                if target.key not in seen and constants.DW_AT_low_pc in target.attributes:
                    seen.add(target.key)
                    waiting.append(target.key)
        return bool(waiting)


INTEGERS = (TypeKind.INTEGER, TypeKind.CHARACTER, TypeKind.BOOLEAN)


def register_of(expression: bytes) -> int | None:
    """Return the register that an expression names; None for other expressions."""
    if not expression:
        return None
    code = expression[0]
    if constants.DW_OP_reg0 <= code <= constants.DW_OP_reg31:
        return code - constants.DW_OP_reg0 if len(expression) == 1 else None
    if code == constants.DW_OP_regx:
        try:
            return Cursor(expression, "expression", 1).uleb()
        except DwarfError:
            return None
    return None
