"""Which file answers for a build-id or a path, and which files complete it.

In: identities. Out: files, or what was tried.

    sources.py      given files, archive folders, the archive cache, the own path, debug folders, servers
    search.py       what is wanted, what was tried with a code each, what was taken, what is missing
    dsym.py         dSYM bundles of Mach-O files
    debug_files.py  the files that complete an ELF file: debug file, dwz's shared file, .dwo and .dwp
    identity.py     build-ids in the one form in which they are compared
    names.py        file names that stand for the same file, where a build-id is missing
    folder_index.py   the files of a folder by build-id, as CI leaves them
    segments.py     where an ELF file says its code is loaded
    cache.py        files by build-id in a folder that processes share: archives once made, files once fetched
    debuginfod.py   a client for servers that a person named, with the cache behind it; http.py ends its requests
    crc.py          the checksum of debug links
    http.py           HTTP requests with a deadline
    perf_archive.py   files that `perf archive` packed

A file counts when its build-id, or the CRC of a debug link, is the wanted one. The path of a process decides nothing
where there is a build-id. Documents: debuginfod(8), gdb's "Debugging Information in Separate Files".
"""
