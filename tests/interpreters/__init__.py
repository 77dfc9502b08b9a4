"""Tests of frames of interpreters in native stacks."""
