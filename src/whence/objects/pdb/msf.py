"""The MSF container: streams made of blocks.

    superblock   block 0: the size and number of blocks, and where the directory is
    free maps    two bit maps of free blocks, in use by turns: blocks 1 and 2 of every `block_size` blocks
    block map    a list of the directory's blocks
    directory    the size and the blocks of each stream

A stream is a view of the file if its blocks are consecutive, otherwise a copy. Since a block belongs to one stream, all
streams together have at most as many bytes as the file.
"""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import CUT_OFF, PdbError, cut_off, wrong_magic
from whence.objects.pdb import layout
from whence.objects.pdb.kernels import blocks as blocks_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBER = struct.calcsize("<I")
FAULTS = {
    blocks_kernel.CUT_OFF: "the directory ends before the stream's last block",
    blocks_kernel.OUTSIDE: "a block number is outside of the file",
    blocks_kernel.SHARED: "another stream has the same block",
}


class Msf:
    """The streams of an MSF file. Raises PdbError for a file of another format, or without a directory."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        if data[: len(layout.MSF_MAGIC)] != layout.MSF_MAGIC:
            raise wrong_magic(PdbError, "a PDB file", data[:4], layout.MSF_MAGIC[:9])
        if len(data) < struct.calcsize(layout.SUPERBLOCK):
            raise cut_off(PdbError, "superblock", 0, struct.calcsize(layout.SUPERBLOCK), len(data))
        _, self.block_size, self.free_map, self.block_count, size, _, block_map = struct.unpack_from(
            layout.SUPERBLOCK, data
        )
        if self.block_size not in layout.BLOCK_SIZES:
            fault = f"the block size is {self.block_size}, expected a power of two from 512 to 32768"
            raise PdbError("superblock", 32, fault)
        blocks = -(-len(data) // self.block_size)  # writers may leave out the end of the last block
        if self.block_count > blocks:
            fault = f"truncated: {self.block_count} blocks of {self.block_size} bytes, the file has {blocks}"
            raise PdbError("superblock", 40, fault, code=CUT_OFF)
        if not NUMBER <= size <= len(data):
            fault = f"the directory has {size} bytes, the file {len(data)}"
            raise PdbError("superblock", 44, fault)
        self.directory = self._joined(self._directory_blocks(size, block_map), size, "directory")
        self.count = struct.unpack_from("<I", self.directory)[0]
        if self.count >= size // NUMBER:
            raise PdbError("directory", 0, f"{self.count} streams in a directory of {size} bytes")
        self._starts = array("I", bytes(NUMBER * self.count))
        self._faults = array("B", bytes(self.count))
        if self.count:
            blocks_kernel.read_directory(self.directory, self.block_size, self.block_count, self._starts, self._faults)

    def __repr__(self) -> str:
        return f"<Msf: {self.count} streams in {self.block_count} blocks of {self.block_size} bytes>"

    def _directory_blocks(self, size: int, block_map: int) -> Sequence[int]:
        """Return the blocks of the directory, which are listed from the block `block_map`."""
        count = -(-size // self.block_size)
        start = block_map * self.block_size
        end = start + NUMBER * count
        if not 0 < block_map < self.block_count or end > len(self._data):
            raise PdbError(
                "superblock", 52, f"block map {block_map} is outside of the file's {self.block_count} blocks"
            )
        blocks = struct.unpack_from(f"<{count}I", self._data, start)
        if max(blocks) >= self.block_count:
            raise PdbError("block map", None, f"block {max(blocks)} is outside of the file's {self.block_count} blocks")
        if len(set(blocks)) < count:
            raise PdbError("block map", None, "a block of the directory is listed twice")
        return blocks

    def size(self, stream: int) -> int:
        """Return the size of a stream in bytes; 0 if it does not exist."""
        if not 0 <= stream < self.count:
            return 0
        size: int = struct.unpack_from("<I", self.directory, NUMBER * (1 + stream))[0]
        return 0 if size == layout.ABSENT else size

    def stream(self, stream: int, name: str = "") -> memoryview:
        """Return the bytes of a stream; none if it does not exist. Raises PdbError if its blocks are invalid."""
        size = self.size(stream)
        if not size:
            return self._data[:0]
        part = name or f"stream {stream}"
        fault = FAULTS.get(self._faults[stream])
        if fault:
            raise PdbError(part, None, fault)
        count = -(-size // self.block_size)
        blocks = struct.unpack_from(f"<{count}I", self.directory, NUMBER * self._starts[stream])
        return self._joined(blocks, size, part)

    def _joined(self, blocks: Sequence[int], size: int, part: str) -> memoryview:
        """Return `size` bytes of blocks. Raises PdbError if the file ends before."""
        data, width = self._data, self.block_size
        end = blocks[-1] * width + (size - 1) % width + 1
        short = len(data) // width  # the last block of the file, if it is not complete
        if end > len(data) or short in blocks[:-1]:
            raise PdbError(part, None, f"truncated: block {max(blocks)} ends after the end of the file", code=CUT_OFF)
        runs: list[memoryview] = []
        start = previous = blocks[0]
        for block in (*blocks[1:], 0):  # no stream has block 0: it ends the last run
            if block != previous + 1:
                runs.append(data[start * width : (previous + 1) * width])
                start = block
            previous = block
        if len(runs) == 1:
            return runs[0][:size]
        return memoryview(b"".join(runs)).toreadonly()[:size]
