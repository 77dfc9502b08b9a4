"""Location expressions: from a frame's registers and memory to the storage of a variable (DWARF 5, section 2.6).

The stack machine is that of call frame information (whence.unwind.expressions). Added are descriptions of locations
(2.6.1), pieces, typed values (2.5.1.4, 2.5.1.6), values at the entry of a function, and GNU's forerunners of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from whence._base.errors import DwarfError
from whence._base.window import sleb
from whence.dwarf.kernels import constants
from whence.types.storage import OPTIMIZED_OUT, SYNTHETIC, NoValue, Piece, Storage, extended_piece
from whence.unwind.constants import Operation
from whence.unwind.expressions import ARITHMETIC, COMPARISONS, Evaluator
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.unwind.memory import Memory

MOST_PIECES = 256
SHORT = 11  # bytes of the longest expression with one operand
LONGEST = 1 << 16  # bytes of an expression, of an implicit value
BITS = 1 << 16  # of a location in pieces of bits
INNER_DEPTH = 32  # of expressions within expressions, and of values at the entry of callers

TYPED = {  # GNU's number of an operation: the standard's
    constants.DW_OP_GNU_implicit_pointer: constants.DW_OP_implicit_pointer,
    constants.DW_OP_GNU_entry_value: constants.DW_OP_entry_value,
    constants.DW_OP_GNU_const_type: constants.DW_OP_const_type,
    constants.DW_OP_GNU_regval_type: constants.DW_OP_regval_type,
    constants.DW_OP_GNU_deref_type: constants.DW_OP_deref_type,
    constants.DW_OP_GNU_convert: constants.DW_OP_convert,
    constants.DW_OP_GNU_reinterpret: constants.DW_OP_reinterpret,
    constants.DW_OP_GNU_addr_index: constants.DW_OP_addrx,
    constants.DW_OP_GNU_const_index: constants.DW_OP_constx,
}
BINARY = frozenset({
    Operation.AND, Operation.OR, Operation.XOR, Operation.PLUS, Operation.MINUS, Operation.MUL, Operation.DIV,
    Operation.MOD, Operation.SHL, Operation.SHR, Operation.SHRA, Operation.EQ, Operation.GE, Operation.GT,
    Operation.LE, Operation.LT, Operation.NE,
})  # fmt: skip
KNOWN = frozenset(map(int, Operation))
UNARY = frozenset({Operation.NEG, Operation.NOT, Operation.ABS, Operation.PLUS_UCONST})


class BaseKind(NamedTuple):
    """The base type of a typed value: its size in bytes, and how its bytes are read."""

    size: int
    is_signed: bool
    is_integer: bool

    def wrap(self, value: int) -> int:
        """Return an integer as this type has it."""
        value &= (1 << 8 * self.size) - 1
        return value - (1 << 8 * self.size) if self.is_signed and value >> 8 * self.size - 1 else value


class Surroundings(Protocol):
    """The context of location expressions: the frame and the unit of a variable."""

    bits: int
    order: ByteOrder
    memory: Memory

    def charge(self) -> None:
        """Count an expression. Raises NoValue if a variable needs too many."""
        ...

    def register(self, number: int) -> int:
        """Return the value of a general register. Raises NoValue."""
        ...

    def register_bytes(self, number: int) -> bytes:
        """Return the bytes of any register. Raises NoValue."""
        ...

    def frame_base(self) -> int:
        """Return the address that DW_OP_fbreg counts from. Raises NoValue."""
        ...

    def cfa(self) -> int:
        """Return the frame's canonical frame address. Raises NoValue."""
        ...

    def relocated(self, vaddr: int) -> int:
        """Return the runtime address of a vaddr."""
        ...

    def indexed(self, index: int) -> int:
        """Return an entry of .debug_addr. Raises NoValue."""
        ...

    def base_kind(self, offset: int) -> BaseKind:
        """Return the base type whose DIE is at an offset in the unit. Raises NoValue."""
        ...

    def entry_value(self, expression: bytes, depth: int) -> int:
        """Return the value that an expression had at the entry of the function. Raises NoValue."""
        ...

    def variable_value(self, key: int) -> int:
        """Return the value of the variable whose DIE has a key. Raises NoValue."""
        ...

    def parameter_value(self, offset: int, depth: int) -> int:
        """Return the value of a parameter, by its DIE's offset in the unit, at the entry. Raises NoValue."""
        ...


def locate(expression: bytes, surroundings: Surroundings, *, object_address: int | None = None) -> Storage:
    """Return the storage of the object that a location expression describes. Raises NoValue."""
    offset = frame_offset(expression)
    if offset is not None:
        address = surroundings.frame_base() + offset & (1 << surroundings.bits) - 1
        return Storage(surroundings.memory, (Piece(None, address),))
    if len(expression) == 1 and constants.DW_OP_reg0 <= expression[0] <= constants.DW_OP_reg31:
        surroundings.charge()
        return Storage(surroundings.memory, (in_register(expression[0] - constants.DW_OP_reg0, surroundings),))
    return _evaluator(expression, surroundings, object_address, 0).locate()


def in_register(number: int, surroundings: Surroundings) -> Piece:
    """Return the piece of an object in a register."""
    try:
        return Piece(None, data=surroundings.register_bytes(number))
    except NoValue as error:
        return Piece(None, missing=str(error))


def frame_offset(expression: bytes) -> int | None:
    """Return the offset from the frame base if an expression is only that, as most are in code without optimization."""
    if not 1 < len(expression) <= SHORT or expression[0] != constants.DW_OP_fbreg:
        return None
    try:
        offset, end = sleb(expression, 1, len(expression))
    except (EOFError, OverflowError):
        return None
    return offset if end == len(expression) else None


def calculate(
    expression: bytes, surroundings: Surroundings, *, object_address: int | None = None, depth: int = 0
) -> int:
    """Return the value of an expression: a bound, an offset, a frame base, the value of an argument. Raises NoValue."""
    return _evaluator(expression, surroundings, object_address, depth).value()


def _evaluator(
    expression: bytes, surroundings: Surroundings, object_address: int | None, depth: int
) -> LocationEvaluator:
    if len(expression) > LONGEST:
        raise NoValue(f"its location expression has {len(expression):,} bytes")
    surroundings.charge()
    if depth > INNER_DEPTH:
        raise NoValue("its location needs the values at the entry of too many functions")
    return LocationEvaluator(expression, surroundings, object_address, depth)


class LocationEvaluator(Evaluator):
    """Evaluates one location expression."""

    def __init__(self, expression: bytes, surroundings: Surroundings, object_address: int | None, depth: int) -> None:
        registers: Mapping[int, int] = {}
        super().__init__(expression, registers, surroundings.memory, surroundings.bits, surroundings.order)
        self.surroundings, self.object_address, self.depth = surroundings, object_address, depth
        self.kinds: list[BaseKind | None] = []  # of the values on the stack
        self.piece: Piece | None = None  # the location described since the last piece
        self.pieces: list[Piece] = []
        self.bits_left = self.bits_number = self.bits_unknown = 0  # bits of no piece yet: number, values, unknown ones
        self.bits_missing = ""

    # results

    def value(self) -> int:
        """Run the expression and return the value on top of its stack, or in the register that it names."""
        self._run()
        if self.pieces:
            raise NoValue("a value in pieces is not supported here")
        if self.piece is not None:
            if self.piece.missing or self.piece.address is not None:
                raise NoValue(self.piece.missing or "its location is not a value")
            return int.from_bytes(self.piece.data[: self.bits // 8], self.order)
        return self._top()

    def locate(self) -> Storage:
        """Run the expression and return the storage that it describes."""
        if not len(self.cursor.data):
            return Storage(self.memory, (Piece(None, missing=OPTIMIZED_OUT),))
        self._run()
        self._flush_bits()
        if not self.pieces:
            piece = self.piece or Piece(None, self._top())
            return Storage(self.memory, (piece,))
        return Storage(self.memory, tuple(self.pieces))

    def _top(self) -> int:
        if not self.stack:
            raise NoValue("its location expression is damaged: it leaves no value")
        return self.pop()

    def _run(self) -> None:
        try:
            self.run_all()
        except DwarfError as error:
            raise NoValue(f"its location expression is damaged: {error.fault}") from None
        except Unreadable as error:
            raise NoValue(str(error)) from None

    # the stack, with types

    def push(self, value: int, kind: BaseKind | None = None) -> None:
        super().push(value)
        self.kinds.append(kind)
        if kind is not None:  # values of other sizes than an address
            self.stack[-1] = kind.wrap(value)

    def peek(self, depth: int, *, remove: bool = False) -> int:
        value = super().peek(depth, remove=remove)
        if remove:
            self.kinds.pop(-1 - depth)
        return value

    def _typed(self) -> tuple[int, BaseKind | None]:
        kind = self.kinds[-1] if self.kinds else None
        return self.pop(), kind

    def register(self, number: int) -> int:
        return self.surroundings.register(number)

    # operations

    def step(self, code: int) -> None:
        code = TYPED.get(code, code)
        if self.piece is not None and code not in (
            constants.DW_OP_piece, constants.DW_OP_bit_piece, constants.DW_OP_GNU_uninit, Operation.NOP,
        ):  # fmt: skip
            raise NoValue("its location expression is damaged: an operation follows a location")
        if code in BINARY and any(kind is not None for kind in self.kinds[-2:]):
            self._binary(code)
        elif code in UNARY and self.kinds and self.kinds[-1] is not None:
            self._unary(code)
        elif Operation.REG0 <= code <= Operation.REG31:
            self.piece = in_register(code - Operation.REG0, self.surroundings)
        else:
            super().step(code)

    def _binary(self, code: int) -> None:
        second, kind = self._typed()
        first, first_kind = self._typed()
        is_shift = code in (Operation.SHL, Operation.SHR, Operation.SHRA)
        kind = first_kind if is_shift else kind
        if kind is None or (not is_shift and first_kind != kind) or not kind.is_integer:
            raise NoValue("arithmetic of this type is not supported")
        if code in COMPARISONS:
            self.push(int(COMPARISONS[code](first, second)))
        elif is_shift:
            bits = 8 * kind.size
            count = min(second, bits)
            if code == Operation.SHL:
                self.push(first << count, kind)
            else:
                logical = code == Operation.SHR
                self.push(
                    (first & (1 << bits) - 1 if logical else kind._replace(is_signed=True).wrap(first)) >> count, kind
                )
        elif code in (Operation.DIV, Operation.MOD):
            if not second:
                raise NoValue("its location expression divides by zero")
            quotient = abs(first) // abs(second)
            quotient = -quotient if (first < 0) != (second < 0) else quotient
            self.push(quotient if code == Operation.DIV else first - quotient * second, kind)
        else:
            self.push(ARITHMETIC[code](first, second), kind)

    def _unary(self, code: int) -> None:
        value, kind = self._typed()
        if kind is None or not kind.is_integer:
            raise NoValue("arithmetic of this type is not supported")
        if code == Operation.PLUS_UCONST:
            self.push(value + self.cursor.uleb(), kind)
        elif code == Operation.ABS:
            self.push(abs(value), kind)
        else:
            self.push(-value if code == Operation.NEG else ~value, kind)

    def other(self, code: int) -> None:
        cursor, surroundings = self.cursor, self.surroundings
        if code == Operation.ADDR:
            self.push(surroundings.relocated(cursor.unsigned(self.bits // 8)))
        elif code == constants.DW_OP_addrx:
            self.push(surroundings.relocated(surroundings.indexed(cursor.uleb())))
        elif code == constants.DW_OP_constx:
            self.push(surroundings.indexed(cursor.uleb()))
        elif code == constants.DW_OP_fbreg:
            offset = cursor.sleb()
            self.push(surroundings.frame_base() + offset)
        elif code == constants.DW_OP_call_frame_cfa:
            self.push(surroundings.cfa())
        elif code == constants.DW_OP_push_object_address:
            if self.object_address is None:
                raise NoValue("the address of the object is unknown")
            self.push(self.object_address)
        elif code == constants.DW_OP_entry_value:
            inner = cursor.take(cursor.uleb())
            self.push(surroundings.entry_value(inner, self.depth + 1))
        elif code == constants.DW_OP_GNU_parameter_ref:
            self.push(surroundings.parameter_value(cursor.unsigned(4), self.depth + 1))
        elif code in (constants.DW_OP_form_tls_address, constants.DW_OP_GNU_push_tls_address):
            raise NoValue("thread-local variables are not supported")
        elif not self._describe(code) and not self._type(code) and not self._copy(code):
            if code not in KNOWN:
                raise NoValue(f"its location expression has the unknown operation {code:#x}")
            super().other(code)

    def _copy(self, code: int) -> bool:
        """Run an operation that copies or moves values, with their types. False for other operations."""
        if code in (Operation.DUP, Operation.OVER, Operation.PICK):
            depth = 0 if code == Operation.DUP else 1 if code == Operation.OVER else self.cursor.u8()
            self.push(self.peek(depth), self.kinds[-1 - depth])
        elif code == Operation.SWAP:
            second, first = self._typed(), self._typed()
            self.push(*second)
            self.push(*first)
        elif code == Operation.ROT:  # moves the top below the next two
            values = self._typed(), self._typed(), self._typed()
            for index in (0, 2, 1):
                self.push(*values[index])
        else:
            return False
        return True

    def _describe(self, code: int) -> bool:
        """Run an operation that describes a location. False for other operations."""
        cursor, surroundings = self.cursor, self.surroundings
        if code == constants.DW_OP_regx:
            self.piece = in_register(cursor.uleb(), surroundings)
        elif code == constants.DW_OP_stack_value:
            if not self.stack:
                raise NoValue("its location expression is damaged: DW_OP_stack_value without a value")
            value, kind = self._typed()
            size = self.bits // 8 if kind is None else kind.size
            self.piece = Piece(None, data=(value & (1 << 8 * size) - 1).to_bytes(size, self.order))
        elif code == constants.DW_OP_implicit_value:
            self.piece = Piece(None, data=cursor.take(cursor.uleb()))
        elif code == constants.DW_OP_implicit_pointer:
            cursor.take(4)
            cursor.sleb()
            self.piece = Piece(None, missing=SYNTHETIC)
        elif code in (constants.DW_OP_piece, constants.DW_OP_bit_piece):
            self._end_piece(code)
        elif code != constants.DW_OP_GNU_uninit:
            return False
        return True

    def _end_piece(self, code: int) -> None:
        size = self.cursor.uleb()
        if code == constants.DW_OP_bit_piece:
            offset = self.cursor.uleb()
            self._end_bits(size, offset)
            return
        if self.bits_left:
            raise NoValue("a location in pieces of bits and bytes is not supported")
        if len(self.pieces) >= MOST_PIECES:
            raise NoValue(f"its location has more than {MOST_PIECES} pieces")
        if self.piece is None:
            piece = Piece(size, self.pop()) if self.stack else Piece(size, missing=OPTIMIZED_OUT)
        else:
            piece = self.piece._replace(size=size)
        if piece.address is None and not piece.missing:
            data = piece.data
            if len(data) < size:
                piece = extended_piece(piece, size)
            elif self.order == "big":  # the value is at the end of the register
                piece = piece._replace(data=data[len(data) - size :])
            else:
                piece = piece._replace(data=data[:size])
        self.pieces.append(piece)
        self.piece = None

    def _end_bits(self, size: int, offset: int) -> None:
        """End a piece of `size` bits, which begin at bit `offset` of the location. Whole bytes become pieces."""
        piece, self.piece = self.piece, None
        if piece is None and self.stack:
            piece = Piece(None, self.pop())
        if self.order == "big" or len(self.pieces) >= MOST_PIECES or max(size, offset) > BITS or self.bits_left > BITS:
            raise NoValue("a location in pieces of bits is not supported")
        number = 0
        missing = OPTIMIZED_OUT if piece is None else piece.missing
        if piece is not None and not missing:
            data = piece.data
            if piece.address is not None:
                data = self.memory.read(piece.address, (offset + size + 7) // 8)
            if 8 * len(data) < offset + size and any(data):
                missing = f"its location has {8 * len(data)} of {offset + size:,} bits"
            number = int.from_bytes(data, "little") >> offset & (1 << size) - 1
        self.bits_number |= number << self.bits_left
        if missing:
            self.bits_unknown |= (1 << size) - 1 << self.bits_left
            self.bits_missing = missing
        self.bits_left += size
        if self.bits_left % 8 == 0:
            self._flush_bits()

    def _flush_bits(self) -> None:
        """Make a piece of the bits that were collected; bits after the last piece are padding."""
        size = (self.bits_left + 7) // 8
        if size:
            if self.bits_unknown == (1 << self.bits_left) - 1:
                self.pieces.append(Piece(size, missing=self.bits_missing))
            else:
                self.pieces.append(
                    Piece(size, data=self.bits_number.to_bytes(size, "little"), unknown=self.bits_unknown)
                )
        self.bits_left = self.bits_number = self.bits_unknown = 0
        self.bits_missing = ""

    def _type(self, code: int) -> bool:
        """Run an operation on typed values. False for other operations."""
        cursor, surroundings = self.cursor, self.surroundings
        if code == constants.DW_OP_const_type:
            kind = surroundings.base_kind(cursor.uleb())
            self._push_bytes(cursor.take(cursor.u8()), kind)
        elif code == constants.DW_OP_regval_type:
            number = cursor.uleb()
            kind = surroundings.base_kind(cursor.uleb())
            data = surroundings.register_bytes(number)
            self._push_bytes(data[: kind.size] if self.order == "little" else data[-kind.size :], kind)
        elif code == constants.DW_OP_deref_type:
            size = cursor.u8()
            kind = surroundings.base_kind(cursor.uleb())
            self._push_bytes(self.memory.read(self.pop(), size), kind)
        elif code in (constants.DW_OP_convert, constants.DW_OP_reinterpret):
            offset = cursor.uleb()
            new = surroundings.base_kind(offset) if offset else None
            value, old = self._typed()
            is_same_size = code == constants.DW_OP_reinterpret and old is not None and new is not None
            if any(kind is not None and not kind.is_integer for kind in (old, new)) and not is_same_size:
                raise NoValue("conversions of floating-point values are not supported")
            self.push(value, new)
        else:
            return False
        return True

    def _push_bytes(self, data: bytes, kind: BaseKind) -> None:
        if len(data) != kind.size:
            raise NoValue("its location expression is damaged: a typed value has the wrong size")
        self.push(int.from_bytes(data, self.order), kind)
