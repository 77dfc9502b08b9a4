"""Frames of interpreted programs, read from the memory of a process or core, and merged into native stacks.

    process.py          the interpreters of one process, and the merged stacks of its threads
    model.py            Runtime, the interface of an interpreter; its frames, grouped by the native frames that run them
    merging.py          the merge of both stacks
    cpython.py          CPython: finds the runtime, walks its threads (kernels/cpython.py)
    cpython_layout.py   offsets by version: _Py_DebugOffsets, and tables for versions before it
    cpython_code.py     code objects: names, lines, columns
    cpython_objects.py  other objects: dicts, sets, attributes
    cpython_tasks.py    tasks of asyncio: the coroutines that each one awaits

A further runtime is a module with a function `find` (process.FINDERS) that returns objects with the interface Runtime.
Memory is never trusted: lists have limits, chains may not have cycles, and a frame that cannot be read has a reason.
The native stack stays complete, even if the memory of the interpreter is damaged.
"""
