"""Which file answers for a build-id or a path, and which files complete it.

In: identities. Out: files, or what was tried.

    sources.py      given files, archive folders, the archive cache, the own path, debug folders, servers
    search.py       a request, the outcome of each candidate, and what is missing
    dsym.py         dSYM bundles of Mach-O files
    pdb.py          PDB files of PE files
    debug_files.py  the files that complete an ELF file: debug file, dwz's shared file, .dwo and .dwp
    identity.py     build-ids in the form in which they are compared
    names.py        comparison of file names, if a build-id is missing
    folder_walk.py    the files below a folder, up to a limit
    folder_index.py   the files of a folder by build-id, as CI leaves them
    segments.py     where the code of an ELF file is loaded
    cache.py        files by build-id in a folder that processes share: archives and fetched files
    debuginfod.py   a client for configured servers, which puts files into the cache
    symbol_server.py  a client for symbol servers of PDB files
    crc.py          the checksum of debug links
    http.py           HTTP requests with a deadline
    perf_archive.py   packages of `perf archive`

A file is accepted if it has the requested build-id, or the CRC of a debug link. Paths are compared only if there is no
build-id. Documents: debuginfod(8), gdb's "Debugging Information in Separate Files".
"""
