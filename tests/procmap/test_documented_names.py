"""The names in the documentation of procmap exist."""

from __future__ import annotations

import os
import sys

from whence import procmap
from whence.objects.elf import ElfFile


def test_all_documented_names_exist() -> None:
    with procmap.Resolver(proc_root="/proc") as resolver:
        mappings = resolver.mappings(os.getpid())
        mapping = next(each for each in mappings if each.kind.has_file)
        assert resolver.lookup(os.getpid(), mapping.start) == mapping
        assert mapping.path
        assert mapping.map_files in ("", f"/proc/{os.getpid()}/map_files/{mapping.start:x}-{mapping.limit:x}")
        assert mapping.start < mapping.limit == mapping.end
        assert mapping.offset >= 0
        assert mapping.is_exec
        opened = mapping.openable_path()
        assert opened
        assert resolver.build_id(opened) == mapping.build_id == procmap.read_build_id(opened)
        mapper = procmap.AddressMapper(opened)
        vaddr = mapper.file_offset_to_virtual_address(mapping.offset, mapping)
        with ElfFile.open(opened) as elf:
            assert vaddr is not None
            assert any(each.executable and each.vaddr & -each.page <= vaddr < each.end for each in elf.segments)
        resolver.invalidate_addr(os.getpid(), mapping.start)
        resolver.invalidate(os.getpid())
        assert resolver.mappings(os.getpid()) == mappings
        assert resolver.mappings(2**22 + 1) == []
        assert resolver.lookup(2**22 + 1, 0x1000) is None


def test_reprs_are_one_line() -> None:
    with procmap.Resolver() as resolver:
        mapping = resolver.lookup(os.getpid(), resolver.mappings(os.getpid())[0].start)
        assert mapping is not None
        shown = [repr(each) for each in (resolver, mapping, procmap.AddressMapper(sys.executable))]
    assert all(text.startswith("<") and "\n" not in text for text in shown)
    assert shown[0].startswith("<whence.procmap.Resolver of /proc: 1 processes")
    assert f"{mapping.start:#x}-{mapping.limit:#x} r-xp" in shown[1]
    assert " -> " in shown[2]
