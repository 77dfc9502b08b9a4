def __getattr__(name: str) -> int: ...  # fields.pxd has the names
