"""Which file answers for a build-id or a path, opened.

locator    Locator: files given, folders, caches and servers, in order
"""
