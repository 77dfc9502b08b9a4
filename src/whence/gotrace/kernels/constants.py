"""Numbers of the trace format, and codes that kernels and Python modules share; defined in constants.pxd."""
