"""Tasks of asyncio in CPython: the frames of the coroutines that each one awaits.

    3.9 to 3.11    the set `_all_tasks` of the module asyncio.tasks
    3.12, 3.13     its sets `_scheduled_tasks` and `_eager_tasks`
    from 3.14      lists of each thread and interpreter; the section `.AsyncioDebug` has the offsets

A suspended coroutine has what it awaits on top of its stack: a coroutine, a generator, or an object that wraps one
(WRAPPERS). The chain ends at a future, or at a coroutine that runs; then the frames of its thread continue it.

The offsets of tasks, generators and modules are in no table before 3.14: TASK_OFFSETS has those of 64-bit builds, from
the headers of 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0, and from the debug information of their `_asyncio`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence.interpreters.cpython_code import CodeObject, InvalidObject
from whence.interpreters.cpython_objects import ObjectReader
from whence.interpreters.model import InterpretedFrame, InterpretedTask, TaskState
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from whence._base.window import ByteOrder
    from whence.interpreters.cpython_code import CodeReader, Read
    from whence.interpreters.cpython_layout import CpythonLayout
    from whence.interpreters.model import InterpretedStack

SECTION = ".AsyncioDebug"
SECTION_FIELDS = (
    "asyncio_task.size", "asyncio_task.name", "asyncio_task.awaited_by", "asyncio_task.is_task",
    "asyncio_task.awaited_by_is_set", "asyncio_task.coro", "asyncio_task.node", "asyncio_interpreter.size",
    "asyncio_interpreter.tasks_head", "asyncio_thread.size", "asyncio_thread.running_loop",
    "asyncio_thread.running_task", "asyncio_thread.tasks_head",
)  # fmt: skip
LONGEST_OFFSET = 1 << 20
TASK_OFFSETS = {
    (3, 9): {
        "thread_state.dict": 152, "gen_object.frame": 16,
        "gen_object.running": 24, "frame_object.stacktop": 72, "code_object.co_code": 48, "asyncio_task.state": 80,
        "asyncio_task.coro": 152, "asyncio_task.name": 160,
    },
    (3, 10): {
        "thread_state.dict": 152, "gen_object.frame": 16,
        "frame_object.state": 108, "frame_object.stackdepth": 80, "frame_object.valuestack": 64,
        "code_object.co_code": 48, "asyncio_task.state": 88, "asyncio_task.coro": 160, "asyncio_task.name": 168,
    },
    (3, 11): {
        "thread_state.dict": 128, "gen_object.gi_iframe": 80,
        "gen_object.gi_frame_state": 75, "interpreter_frame.stacktop": 64, "interpreter_frame.localsplus": 72,
        "asyncio_task.state": 88, "asyncio_task.coro": 136, "asyncio_task.name": 144,
    },
    (3, 12): {
        "thread_state.dict": 112, "gen_object.gi_iframe": 72,
        "gen_object.gi_frame_state": 67, "interpreter_frame.stacktop": 64, "interpreter_frame.localsplus": 72,
        "asyncio_task.state": 88, "asyncio_task.coro": 136, "asyncio_task.name": 144,
    },
    (3, 13): {
        "gen_object.gi_iframe": 72, "gen_object.gi_frame_state": 67,
        "interpreter_frame.stacktop": 64, "asyncio_task.state": 96, "asyncio_task.coro": 120, "asyncio_task.name": 128,
    },
}  # fmt: skip
COMMON_OFFSETS = {"asyncio_task.loop": 16, "running_loop.loop": 16}
TABLE_SINCE = (3, 14)

MODULE, SETS = "asyncio.tasks", ("_all_tasks", "_scheduled_tasks", "_eager_tasks")
RUNNING_LOOP = "__asyncio_running_event_loop__"  # in the dict of a thread state, to 3.12
LOOP_HOLDER = "_RunningLoopHolder"
TASK_TYPE, FUTURE_ITERATOR = "_asyncio.Task", "_asyncio.FutureIter"
COROUTINES = ("coroutine", "generator", "async_generator")
WRAPPERS = ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper", "anext_awaitable", FUTURE_ITERATOR)
PENDING = 0  # state of a future
YIELD_FROM = 72  # instruction of 3.9 and 3.10
UNIT = 2  # bytes of an instruction
RESUME_AWAITS = (2, 3)  # arguments of RESUME (3.11, 3.12) after `yield from` and `await`
INTERPRETERS_LIMIT = 1000
TASKS_LIMIT = 20_000
AWAITS_LIMIT = 500_000  # frames of all tasks
DEPTH_LIMIT = 10_000  # awaits of one task


class FrameStates(NamedTuple):
    """Numbers of a generator's state. Before 3.13, `awaiting` is the state of every suspended generator."""

    created: int
    awaiting: int
    executing: int

    @classmethod
    def of(cls, version: tuple[int, int]) -> FrameStates:
        if version >= (3, 15):
            return cls(0, 2, 4)
        return cls(-3 if version >= (3, 13) else -2, -1, 0)


class Coroutine(NamedTuple):
    """A coroutine or generator: its frame with the address of its code, its state, and what it awaits (0: nothing)."""

    frame: int
    code: int
    position: int
    state: TaskState
    awaited: int = 0


class AwaitChain(NamedTuple):
    """The frames of a task, outermost first, up to a running frame, or to what the innermost coroutine awaits."""

    frames: list[InterpretedFrame]
    state: TaskState
    awaits: int = 0
    waits_for: str = ""
    problem: str = ""


class RawTask(NamedTuple):
    """A task as it was while its thread was stopped.

    `loop` is its event loop (before 3.14); `thread_state` has it in its list (from 3.14 on). 0 if unknown.
    """

    address: int
    name: str
    chain: AwaitChain
    awaited_by: tuple[int, ...] = ()
    loop: int = 0
    thread_state: int = 0


class AsyncioReader:
    """Reads the tasks of one runtime. `problems` says what could not be read.

    `locate` finds what stays where it is, and may be called while the process runs. `read` reads the tasks of threads
    that are stopped; `tasks` returns all of them.
    """

    def __init__(
        self, layout: CpythonLayout, order: ByteOrder, codes: CodeReader, read: Read, tables: Iterable[int]
    ) -> None:
        """Prepare to read.

        Args:
            codes: decodes code objects.
            read: returns memory; raises Unreadable.
            tables: runtime addresses of the sections `.AsyncioDebug`.
        """
        self._layout, self._codes, self._tables = layout, codes, tables
        fields = {**COMMON_OFFSETS, **TASK_OFFSETS.get(layout.version, {})}
        self._objects = ObjectReader(layout, order, codes, read, fields)
        self._states = FrameStates.of(layout.version)
        self._has_table = False
        self._interpreters: list[int] = []
        self._sets: dict[int, list[int]] = {}  # addresses of sets of tasks, by interpreter
        self._loops: dict[int, int] = {}  # thread states by the address of the event loop that they run
        self._stopped: set[int] = set()  # thread states of the current call of `read`
        self._raw: dict[int, RawTask] = {}
        self._is_task_type: dict[int, bool] = {}
        self._frames_left = AWAITS_LIMIT
        self.problems: list[str] = []

    @property
    def has_tasks(self) -> bool:
        """Return True if the tasks of asyncio were located."""
        return self._has_table or any(self._sets.values())

    def _add_problem(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    # what stays where it is

    def locate(self, runtime: int) -> None:
        """Find the lists or sets of tasks of a runtime's interpreters."""
        try:
            interpreter = self._objects.field(runtime, "runtime_state.interpreters_head")
            while interpreter and len(self._interpreters) < INTERPRETERS_LIMIT:
                self._interpreters.append(interpreter)
                interpreter = self._objects.field(interpreter, "interpreter_state.next")
        except Unreadable as error:
            self._add_problem(f"the list of interpreters is not readable: {error}")
        if self._layout.version >= TABLE_SINCE:
            self._read_table()
        elif self._layout.is_free_threaded or self._layout.version not in TASK_OFFSETS:
            self._add_problem(f"tasks of {self._layout.title} are not read")
        else:
            for interpreter in self._interpreters:
                try:
                    self._sets[interpreter] = self._sets_of(interpreter)
                except (Unreadable, InvalidObject) as error:
                    self._add_problem(f"the sets of asyncio's tasks are not readable: {error}")

    def _read_table(self) -> None:
        objects = self._objects
        for address in self._tables:
            try:
                numbers = [objects.word(address + 8 * index) for index in range(len(SECTION_FIELDS))]
            except Unreadable as error:
                self._add_problem(f"the section {SECTION} is not readable: {error}")
                continue
            if not numbers[0] or max(numbers) >= LONGEST_OFFSET:
                self._add_problem(f"the section {SECTION} at {address:#x} is damaged")
                continue
            objects.fields.update(zip(SECTION_FIELDS, numbers, strict=True))
            self._has_table = True

    def _sets_of(self, interpreter: int) -> list[int]:
        """Return the sets of tasks of an interpreter; none if it has not imported asyncio."""
        objects = self._objects
        members = objects.members(interpreter, MODULE, SETS)
        sets = [
            address if objects.type_name(address) == "set" else objects.attribute(address, "data")
            for address in members.values()
        ]
        return [address for address in sets if address]

    # what changes while the process runs

    def read(self, thread_states: Sequence[int]) -> None:
        """Read the tasks of threads that are stopped now, by the addresses of their states, and of no thread."""
        self._stopped = {*thread_states}
        for read, addresses in ((self._read_thread, thread_states), (self._read_interpreter, self._interpreters)):
            for address in addresses:
                try:
                    read(address)
                except (Unreadable, InvalidObject) as error:
                    self._add_problem(f"tasks of asyncio are not readable: {error}")

    def _read_thread(self, state: int) -> None:
        objects = self._objects
        if self._has_table:
            self._read_list(state + objects.fields["asyncio_thread.tasks_head"], state)
        elif self._layout.version == (3, 13):  # the first field after those of PyThreadState
            self._loops[objects.word(state + objects.fields["thread_state.size"])] = state
        elif self._sets:
            mapping = objects.field(state, "thread_state.dict")
            loop = objects.entries(mapping, [RUNNING_LOOP]).get(RUNNING_LOOP) if mapping else None
            if loop:
                if objects.type_name(loop) == LOOP_HOLDER:  # to 3.11
                    loop = objects.field(loop, "running_loop.loop")
                self._loops[loop] = state

    def _read_interpreter(self, interpreter: int) -> None:
        objects = self._objects
        if self._has_table:
            self._read_list(interpreter + objects.fields["asyncio_interpreter.tasks_head"], 0)
        for address in self._sets.get(interpreter, ()):
            for member in objects.set_members(address):
                is_reference = objects.type_name(member).startswith("weakref")
                task = objects.field(member, "weak_reference.object") if is_reference else member
                if objects.type_name(task) == "NoneType":  # the task is gone
                    continue
                if not self._is_task(task):
                    self._add_problem("tasks that do not derive from asyncio's C implementation are not read")
                elif objects.number(task + objects.fields["asyncio_task.state"], 4) == PENDING:
                    self._add(task, 0)

    def _read_list(self, head: int, state: int) -> None:
        """Read the tasks of a linked list."""
        objects = self._objects
        nodes = {head, 0}
        node = objects.field(head, "llist_node.next")
        while node not in nodes:
            nodes.add(node)
            self._add(node - objects.fields["asyncio_task.node"], state)
            node = objects.field(node, "llist_node.next")

    def _is_task(self, address: int) -> bool:
        kind = self._objects.field(address, "pyobject.ob_type")
        if kind not in self._is_task_type:
            self._is_task_type[kind] = TASK_TYPE in self._objects.base_names(address)
        return self._is_task_type[kind]

    def _add(self, address: int, state: int) -> None:
        if len(self._raw) >= TASKS_LIMIT and address not in self._raw:
            raise InvalidObject(f"there are more than {TASKS_LIMIT:,}")
        objects = self._objects
        try:
            name = self._name(objects.field(address, "asyncio_task.name"))
            chain = self._chain(objects.field(address, "asyncio_task.coro"))
            awaited_by = self._awaited_by(address) if self._has_table else ()
            loop = 0 if self._has_table else objects.field(address, "asyncio_task.loop")
            if address in self._raw and (state or self._loops.get(loop)) not in self._stopped:
                return  # read before, when its thread was stopped
            self._raw[address] = RawTask(address, name, chain, awaited_by, loop, state)
        except (Unreadable, InvalidObject) as error:
            chain = AwaitChain([], TaskState.UNKNOWN, problem=f"the task is not readable: {error}")
            self._raw[address] = RawTask(address, "", chain, thread_state=state)

    def _name(self, address: int) -> str:
        """Return the name of a task; the interpreter stores the number of a default name until it is read."""
        kind = self._objects.type_name(address)
        if kind == "int":
            return f"Task-{self._objects.natural(address)}"
        return self._objects.text(address)

    def _awaited_by(self, task: int) -> tuple[int, ...]:
        """Return the tasks that await a task, or those of its group."""
        objects = self._objects
        waiting = objects.field(task, "asyncio_task.awaited_by")
        if not waiting:
            return ()
        if objects.number(task + objects.fields["asyncio_task.awaited_by_is_set"], 1):
            return tuple(objects.set_members(waiting))
        return (waiting,)

    # one task

    def _chain(self, address: int) -> AwaitChain:
        """Follow what a coroutine awaits."""
        frames: list[InterpretedFrame] = []
        seen: set[int] = set()
        state = TaskState.SUSPENDED
        while True:
            kind = self._objects.type_name(address)
            if address in seen:
                return AwaitChain(frames, state, problem="its coroutines await each other in a cycle")
            seen.add(address)
            if kind in WRAPPERS:
                address = self._objects.word(address + self._objects.head)
                if kind == FUTURE_ITERATOR:
                    return AwaitChain(frames, state, address, self._objects.type_name(address))
                continue
            if kind not in COROUTINES:
                return AwaitChain(frames, state, 0, kind, "" if kind else "what it awaits is not readable")
            if len(seen) > DEPTH_LIMIT or self._frames_left <= 0:
                return AwaitChain(frames, state, problem="it awaits more coroutines than are read")
            try:
                coroutine = self._coroutine(address)
            except (Unreadable, InvalidObject) as error:
                return AwaitChain(frames, state, problem=f"a coroutine is not readable: {error}")
            if coroutine is None:  # it has returned
                return AwaitChain(frames, state)
            self._frames_left -= 1
            frames.append(self._frame(coroutine))
            if coroutine.state is not TaskState.SUSPENDED and len(frames) == 1:
                state = coroutine.state
            if not coroutine.awaited:
                return AwaitChain(frames, state)
            address = coroutine.awaited

    def _frame(self, coroutine: Coroutine) -> InterpretedFrame:
        code = self._codes.code(coroutine.code, None, self._objects.read)
        if not isinstance(code, CodeObject):
            return InterpretedFrame(coroutine.frame, None, code)
        return InterpretedFrame(coroutine.frame, code.frame(coroutine.position))

    def _coroutine(self, address: int) -> Coroutine | None:
        """Return a coroutine or generator, None if it has returned."""
        objects, states = self._objects, self._states
        if self._layout.version < (3, 11):
            return self._old_coroutine(address)
        number = objects.number(address + objects.fields["gen_object.gi_frame_state"], 1)
        frame = address + objects.fields["gen_object.gi_iframe"]
        if number > states.executing:
            return None
        code = objects.field(frame, "interpreter_frame.executable") & ~self._tags
        position = self._position(frame, code)
        if number == states.created:
            return Coroutine(frame, code, position, TaskState.CREATED)
        if number == states.executing:
            return Coroutine(frame, code, position, TaskState.RUNNING)
        if number < states.awaiting or (self._layout.version < (3, 13) and not self._is_at_await(frame)):
            return Coroutine(frame, code, position, TaskState.SUSPENDED)
        return Coroutine(frame, code, position, TaskState.SUSPENDED, self._top_of_stack(frame))

    @property
    def _tags(self) -> int:
        return 3 if self._layout.version >= TABLE_SINCE else 0

    def _position(self, frame: int, code: int) -> int:
        """Return the byte offset of a frame's instruction in the bytecode."""
        objects = self._objects
        start = code + objects.fields["code_object.co_code_adaptive"]
        copy_field = objects.fields.get("interpreter_frame.tlbc_index") if self._layout.is_free_threaded else None
        copy = objects.number(frame + copy_field, 4) if copy_field else 0
        if copy:  # a thread's own copy of the bytecode
            table = objects.field(code, "code_object.co_tlbc")
            if not 0 < copy < objects.word(table):
                raise InvalidObject(f"copy {copy} of the bytecode does not exist")
            start = objects.word(table + 8 + 8 * copy)
        return objects.field(frame, "interpreter_frame.instr_ptr") - start

    def _is_at_await(self, frame: int) -> bool:
        """Return True if a suspended frame of 3.11 or 3.12 awaits something; its next instruction is RESUME."""
        instruction = self._objects.field(frame, "interpreter_frame.instr_ptr")
        return self._objects.read(instruction + UNIT, UNIT)[1] & 3 in RESUME_AWAITS

    def _top_of_stack(self, frame: int) -> int:
        """Return the object on top of a suspended frame's stack."""
        objects = self._objects
        if self._layout.version < TABLE_SINCE:
            depth = objects.number(frame + objects.fields["interpreter_frame.stacktop"], 4)
            end = frame + objects.fields["interpreter_frame.localsplus"] + 8 * depth
        else:
            end = objects.field(frame, "interpreter_frame.stackpointer")
        # 3.15 has an empty word above it
        return objects.word(end - 8) & ~self._tags or objects.word(end - 16) & ~self._tags

    def _old_coroutine(self, address: int) -> Coroutine | None:
        """Return a coroutine of 3.9 or 3.10, whose frame is an object."""
        objects = self._objects
        frame = objects.field(address, "gen_object.frame")
        if not frame:
            return None
        code = objects.field(frame, "interpreter_frame.executable")
        index = objects.number(frame + objects.fields["interpreter_frame.instr_ptr"], 4)
        position = index * UNIT if self._layout.version == (3, 10) else index
        if self._layout.version == (3, 10):
            is_running = objects.number(frame + objects.fields["frame_object.state"], 1) == self._states.executing
            depth = objects.number(frame + objects.fields["frame_object.stackdepth"], 4)
            end = objects.field(frame, "frame_object.valuestack") + 8 * depth
        else:
            is_running = bool(objects.number(address + objects.fields["gen_object.running"], 1))
            end = objects.field(frame, "frame_object.stacktop")
        if is_running:
            return Coroutine(frame, code, position, TaskState.RUNNING)
        if index < 0:
            return Coroutine(frame, code, position, TaskState.CREATED)
        bytecode = objects.field(code, "code_object.co_code") + objects.fields["bytes_object.ob_sval"]
        awaits = objects.read(bytecode + position + UNIT, UNIT)[0] == YIELD_FROM
        return Coroutine(frame, code, position, TaskState.SUSPENDED, objects.word(end - 8) if awaits else 0)

    # result

    def tasks(self, tids: Mapping[int, int], stacks: Mapping[int, InterpretedStack]) -> list[InterpretedTask]:
        """Return the tasks that were read, in order of thread and name.

        Args:
            tids: threads by the addresses of their thread states.
            stacks: the frames of threads, with which a running coroutine's frames continue.
        """
        waiting: dict[int, list[int]] = {}
        for task in self._raw.values():
            for other in (task.chain.awaits,) if task.chain.awaits else ():
                waiting.setdefault(other, []).append(task.address)
            waiting.setdefault(task.address, []).extend(task.awaited_by)
        tasks = []
        for task in self._raw.values():
            state = task.thread_state or self._loops.get(task.loop, 0)
            tid = tids.get(state, 0)
            frames, problem = list(reversed(task.chain.frames)), task.chain.problem
            if task.chain.state is TaskState.RUNNING and not problem:
                frames, problem = _running_frames(task.chain.frames[0].address, stacks.get(tid), frames)
            awaited = self._raw.get(task.chain.awaits)
            names = [self._raw[other].name for other in dict.fromkeys(waiting[task.address]) if other in self._raw]
            awaits = "" if awaited is None else awaited.name
            tasks.append(
                InterpretedTask(
                    task.address, task.name, tid, task.chain.state, tuple(frames), awaits, task.chain.waits_for,
                    tuple(names), problem,
                )
            )  # fmt: skip
        return sorted(tasks, key=lambda task: (task.tid, _natural_order(task.name), task.address))


def _running_frames(
    outermost: int, stack: InterpretedStack | None, frames: list[InterpretedFrame]
) -> tuple[list[InterpretedFrame], str]:
    """Return the frames of a thread up to a coroutine's frame, innermost first, or a problem."""
    running = [] if stack is None else stack.frames
    for index, frame in enumerate(running):
        if frame.address == outermost:
            return running[: index + 1], ""
    return frames, "it is running, but not on the stack of a thread that was read"


def _natural_order(name: str) -> tuple[str, int]:
    """Return a key with which Task-9 precedes Task-10."""
    word = name.rstrip("0123456789")
    return word, int(name[len(word) :][:18] or 0)
