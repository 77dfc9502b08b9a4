"""Which file answers for a build-id or a path, opened.

locator    Locator: given files, folders, caches and servers, in order
options    what a user says about sources, as one record
coerce     a Locator of anything that says where names come from
answers    files that answer, open
opening    whence.open: a file of a given path
"""
