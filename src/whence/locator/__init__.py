"""Which file answers for a build-id or a path, opened.

locator    Locator: given files, folders, caches and servers, in order
answers    files that answer, open
opening    whence.open: a file of a given path
"""
