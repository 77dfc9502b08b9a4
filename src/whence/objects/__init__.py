"""Object files: one interface to sections, segments, symbols, IDs and code ranges, and a package for each format.

interface.py   what debug info, Go's tables and unwind tables are read through
opening.py     opening a file of any format
mapped.py      what formats other than ELF have in common
zipped.py      object files inside zip files
parts.py       sections, segments and symbol tables
sized.py       symbols of formats that give them no size
companions.py  the files that complete an object file, as its readers ask for them
machines.py    names of machines
ids.py         build-ids, debug ids and code ids in their spellings
elf            ELF files
macho          Mach-O files
pe             PE files
pdb            PDB files
wasm           WebAssembly modules
gsym.py        GSYM files
breakpad.py    Breakpad symbol files
source_map.py  source maps of WebAssembly modules
names_only.py  what files that have names and no code have in common
"""
