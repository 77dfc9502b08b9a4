"""Bytes made from values: the files a test's claim needs, whole ones and broken ones."""
