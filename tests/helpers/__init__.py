"""Programs, processes and tools the tests run."""
