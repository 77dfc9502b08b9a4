"""Programs that make what a release holds; none of them is installed."""
