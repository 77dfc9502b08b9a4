"""Dumps of processes: cores of Linux and minidumps of any system.

In: bytes of a dump. Out: the mappings and files of the process, its memory, and its threads with registers. References:
core(5), elf(5); Microsoft's MINIDUMP_HEADER and the structures it leads to; the headers of Breakpad and Crashpad.

    process.py           what every dump has of a process
    core.py              a core as a process that has ended: mappings, threads
    core_stream.py       the part of a core on a pipe that stacks may need
    core_writer.py       writes cores
    unpacked.py          cores in compressed files and in reports of apport, as copies
    packed.py            compressed cores, expanded within limits
    apport.py            the fields and the core of a .crash file of apport
    link_map.py          the loader's list of libraries, in the memory of a core
    signals.py           names and causes of signals
    minidump.py          a minidump as lists: threads, modules, memory, exception, system
    minidump_layout.py   structures and numbers of minidumps
    minidump_process.py  a minidump as a process that has ended
    minidump_writer.py   writes minidumps
    contexts.py          registers of threads in minidumps
    codeview.py          identities of modules
    exceptions.py        names and causes of exceptions
    crashpad.py          annotations of Crashpad
    facts.py             what a minidump says of the process and its system
"""
