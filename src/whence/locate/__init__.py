"""Which file answers for a build-id.

find         local rules: build-id folders, debug links (CRC checked), .dwo, .dwp and supplementary files
cache        files by build-id in a folder that processes share: archives once made, files once fetched
debuginfod   a client for servers a person named, with the cache behind it
"""
