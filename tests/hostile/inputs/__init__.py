"""The inputs of tests/hostile as bytes, which fuzz/ has among its seeds, too."""
