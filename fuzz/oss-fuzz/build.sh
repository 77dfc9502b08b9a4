#!/bin/bash -eu
# Build whence with OSS-Fuzz's compiler flags, and a fuzz target, a seed corpus and a dictionary for each parser, in $OUT.
cd "$SRC/whence"
pip3 install "setuptools>=80" "cython>=3.2" "hypothesis>=6.100" "pytest>=8" capstone pyarrow isal
WHENCE_CHECKED=1 pip3 install --no-build-isolation .
python3 -m tools.corpus "$WORK/corpus"
kernels=$(python3 -c 'import whence.kernels; print(whence.kernels.__path__[0])') # PyInstaller does not find it by itself
for name in $(python3 -m tools.corpus --names); do
  # Every target is the same program, which chooses its parser by its own name.
  cp fuzz/oss-fuzz/fuzz_target.py "$WORK/fuzz_$name.py"
  compile_python_fuzzer "$WORK/fuzz_$name.py" --paths "$SRC/whence" --hidden-import "fuzz.$name" \
    --add-binary "$kernels:whence/kernels" --collect-submodules whence --collect-submodules tests.forge --collect-submodules tests.helpers
  zip -q -j "$OUT/fuzz_${name}_seed_corpus.zip" "$WORK/corpus/$name"/*
  dictionary=$(python3 -m tools.corpus --dictionary "$name")
  if [ -n "$dictionary" ]; then cp "$dictionary" "$OUT/fuzz_$name.dict"; fi
  printf '[libfuzzer]\nmax_len = 1048576\ntimeout = 60\nrss_limit_mb = 2560\n' > "$OUT/fuzz_$name.options"
done
