"""The permissions of a mapping, for Python; defined in constants.pxd."""
