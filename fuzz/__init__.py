"""Fuzz targets: one small module each, with `SEEDS` (a function giving bytes to start from) and `target(data)`."""
