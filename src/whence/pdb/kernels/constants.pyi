def __getattr__(name: str) -> int: ...  # constants.pxd has the names
