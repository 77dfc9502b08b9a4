"""Which file answers for a build-id."""
