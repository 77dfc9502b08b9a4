# The two commands: `make demo` and `make test`. `make help` prints them all.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The folders are newer than what was built when a kernel was added or deleted.
SOURCES := $(shell find src -path '*/kernels/*.p*' -not -name '*.pyc' -not -path '*__pycache__*') setup.py pyproject.toml
SOURCES += $(shell find src -type d -name kernels)
JOBS ?= $(shell expr $$(nproc) + 1)
HOW ?= --editable
PYTHONS ?= 3.11 3.12 3.13 3.14
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq
# Tests wait for servers, signals and other programs: one more process than processors. They share out neighbours, which
# use the same programs. pytest would rewrite every module of plugins that it finds by itself, hypothesis's own too.
PYTEST := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m pytest -p xdist -p _hypothesis_pytestplugin
PYTEST += -n $(JOBS) --dist worksteal
UV := UV_SYSTEM_CERTS=$${UV_SYSTEM_CERTS:-1} VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet

.PHONY: help demo test test-pythons lint style types check browser page frontends steady buckets oracle engines bench guards fuzz
.PHONY: oss-fuzz fuzz-coverage portable free-threaded nightly reproducible
.PHONY: checked go-versions pythons-frames python-programs machines small-cores sanitized shell-files docs wheels
.PHONY: try-wheels release clean
.DEFAULT_GOAL := help

help:  ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

# The environment, with what builds whence and what whence depends on.
$(VENV)/.made: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) uv 2>/dev/null && $(UV) --compile-bytecode -r pyproject.toml --group build 2>/dev/null \
	  || { $(PIP) --upgrade pip && $(PIP) --group build; }  # pip has settings of its own
	@touch $@

$(VENV)/.installed: $(SOURCES) | $(VENV)/.made
	@echo "building whence (a minute or so on the first run)"
	@WHENCE_PROGRESS=$$(test -e /proc/$$$$/fd/2 && echo /proc/$$$$/fd/2 || tty) $(PIP) --no-build-isolation --no-warn-conflicts $(HOW) .
	@$(BIN)/python -m compileall -q src  # where Python is told to write no bytecode, every start would compile it all
	@touch $@

# What the tests need. Downloading takes no processor, so it is done while whence is built.
$(VENV)/.grouped: pyproject.toml | $(VENV)/.made
	@echo "installing what the tests need"
	@$(UV) --compile-bytecode --group test 2>/dev/null || { $(PIP) --upgrade pip && $(PIP) --group test; }
	@touch $@

$(VENV)/.tested: $(SOURCES) | $(VENV)/.made
	@$(MAKE) --no-print-directory -j2 $(VENV)/.installed $(VENV)/.grouped
	@touch $@

demo: $(VENV)/.installed  ## set up, then name a live process, an archive and a profile, and draw a flame graph
	@$(BIN)/python -m whence.cli.demo

test: $(VENV)/.tested  ## set up, then the whole test suite
	@$(PYTEST) $(TESTS)

test-pythons:  ## the test suite on every CPython of PYTHONS that is found, each in an environment of its own
	@for version in $(PYTHONS); do \
		for python in $$HOME/.pyenv/versions/$$version.*/bin/python$$version $$(command -v python$$version) ""; do \
			test -n "$$python" && "$$python" -c "" 2>/dev/null && break; \
		done; \
		if test -z "$$python"; then echo "python$$version: not found, left out"; continue; fi; \
		echo "python$$version: $$python"; \
		$(MAKE) --no-print-directory VENV=.venv-$$version PYTHON="$$python" HOW= TESTS="tests README.md docs" test \
			|| exit 1; \
	done

lint: | $(VENV)/.made  ## style, layout and types
	@$(MAKE) --no-print-directory -j3 style types $(VENV)/.installed  # types need no kernel: checked while they are built

style: | $(VENV)/.grouped
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.lint
	$(BIN)/zizmor --offline --no-progress --quiet .
	$(BIN)/python -m benchmarks.tables --check

types: | $(VENV)/.grouped
	$(BIN)/mypy

check: lint $(VENV)/.tested  ## style, types, tests with coverage
	$(BIN)/coverage run -m pytest && $(BIN)/coverage report

browser: $(VENV)/.tested  ## the flame graph's page in a headless Chromium (installs it where apt-get is)
	@command -v chromium chromium-browser google-chrome >/dev/null || apt-get install -y -qq chromium
	@$(BIN)/python -m pytest tests/profiles/test_flamegraph_page.py

page: $(VENV)/.tested  ## the page of `whence serve` in a headless Chromium, by the keyboard, checked by axe (npm)
	@command -v chromium chromium-browser google-chrome >/dev/null || apt-get install -y -qq chromium
	@npm install --silent --no-fund --no-audit --ignore-scripts --prefix .cache/npm playwright-core axe-core
	@$(VENV)/bin/python -m pytest -q tests/server/test_page.py

go-versions: $(VENV)/.tested  ## goroutines of programs of each release of Go that PyPI has (fetches the toolchains)
	@WHENCE_GO_VERSIONS=1 $(BIN)/python -m pytest -q -ra -p no:cacheprovider tests/unwind/test_goroutines.py

pythons-frames: $(VENV)/.tested  ## Python frames of every CPython from 3.7 on (pyenv, PATH, Debian's in roots of their own, 3.13t)
	@WHENCE_PYTHONS="$$({ for minor in 7 8 9 10 11 12 13 14 15; do \
		ls $$HOME/.pyenv/versions/3.$$minor.*/bin/python3.$$minor 2>/dev/null; command -v python3.$$minor; \
	done; $(BIN)/python -m tools.frame_pythons; } | tr '\n' ' ')" $(BIN)/python -m pytest -q -ra -p no:cacheprovider tests/interpreters

# PYTHON and PROGRAMS select another interpreter, and the environment of the programs.
PROGRAMS ?= .venv-programs
python-programs: $(VENV)/.tested  ## 100,000 samples of ten Python programs: how many stacks do not match, beside py-spy
	@test -x $(PROGRAMS)/bin/python || $(PYTHON) -m venv $(PROGRAMS)
	@VIRTUAL_ENV=$(PROGRAMS) $(BIN)/uv pip install --quiet --group programs
	@VIRTUAL_ENV=$(PROGRAMS) $(BIN)/uv pip install --quiet --torch-backend cpu "torch>=2" || echo "PyTorch is left out"
	@$(BIN)/python tests/data/python_programs/check.py $(PROGRAMS)/bin/python $(CHECK)

frontends: $(VENV)/.tested  ## profiles and the server's names, opened by the front ends themselves (installs them by npm)
	@npm install --silent --no-fund --no-audit --prefix .cache/npm @firefox-devtools/profiler-cli speedscope
	@$(BIN)/python -m pytest -ra tests/profiles/test_outputs.py tests/server/test_clients.py

steady: $(VENV)/.tested  ## the server for five minutes under load by 64 clients, and 10,000 hostile requests
	@WHENCE_CLIENTS=64 WHENCE_SECONDS=300 WHENCE_REQUESTS=10000 $(BIN)/python -m pytest -s -q -p no:cacheprovider \
	  tests/hostile/test_server.py -k $${BY:-granian}

buckets: $(VENV)/.tested  ## the store's tests over Azurite's blob service, too (npm installs it)
	@test -x .cache/azurite/node_modules/.bin/azurite-blob || npm install --silent --ignore-scripts --prefix .cache/azurite azurite
	@AZURITE=.cache/azurite/node_modules/.bin/azurite-blob $(BIN)/python -m pytest tests/store/test_buckets.py

machines: $(VENV)/.tested  ## stacks of other machines, by Debian's cross compilers and qemu-user
	@command -v qemu-arm-static arm-linux-gnueabihf-gcc i686-linux-gnu-gcc >/dev/null || apt-get install -y -qq \
	  --no-install-recommends qemu-user-static gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf gcc-i686-linux-gnu \
	  gcc-powerpc64le-linux-gnu gcc-s390x-linux-gnu libc6-dev-arm64-cross libc6-dev-armhf-cross libc6-dev-i386-cross \
	  libc6-dev-ppc64el-cross libc6-dev-s390x-cross
	@sh tests/data/machines/check.sh $(CURDIR)/$(VENV)/bin/python

small-cores: $(VENV)/.tested  ## crash thirty programs, shrink their cores, compare with debuggers, variables too (installs them)
	@command -v redis-server memcached nginx node ruby lua5.4 php sqlite3 java musl-gcc gdb-multiarch qemu-aarch64-static \
	  i686-linux-gnu-gcc >/dev/null || apt-get install -y -qq --no-install-recommends redis-server memcached nginx-light \
	  nodejs ruby lua5.4 php-cli sqlite3 openjdk-17-jre-headless postgresql musl-tools gcc-i686-linux-gnu \
	  libc6-dev-i386-cross gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static gdb gdb-multiarch elfutils libc6-dbg
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH=. $(BIN)/python tests/data/small_cores/check.py $(BIN)/whence

engines:  ## name tables by Ray, Dask and Spark, real ones, in an environment of its own (needs Java)
	@$(MAKE) --no-print-directory VENV=.venv-engines HOW= .venv-engines/.installed
	@.venv-engines/bin/python -m pip install -qq --disable-pip-version-check --upgrade pip
	@.venv-engines/bin/python -m pip install -qq --disable-pip-version-check --group engines
	@.venv-engines/bin/python -m pytest -m engines -p no:cacheprovider -rA tests/engines/test_clusters.py

oracle: $(VENV)/.tested  ## compare with other tools over big debug files (downloads them) and programs of other systems
	@command -v emcc >/dev/null || apt-get install -y -qq \
	  --no-install-recommends clang-19 lld-19 llvm-19 g++-mingw-w64-x86-64-posix rustc libstd-rust-dev-windows emscripten
	@$(BIN)/python -m pytest -m oracle -p no:cacheprovider

bench: $(VENV)/.tested  ## time against the peers that are on this machine
	@$(BIN)/python -m benchmarks

guards: $(VENV)/.tested  ## bytes of archives and instruction counts beside the recorded ones (perf or valgrind)
	@$(BIN)/python -m benchmarks guards

fuzz: $(VENV)/.tested  ## every fuzz target, SECONDS_EACH each (60)
	@$(BIN)/python -m fuzz --seconds $${SECONDS_EACH:-60}

oss-fuzz: $(VENV)/.tested  ## fuzz/oss-fuzz: build.sh as in OSS-Fuzz's image, and the targets under atheris, SECONDS_EACH each (5)
	@$(UV) --group fuzz 2>/dev/null || $(PIP) --group fuzz
	@$(BIN)/python -m tools.oss_fuzz --script
	@$(BIN)/python -m tools.oss_fuzz --seconds $${SECONDS_EACH:-5}

fuzz-coverage: $(VENV)/.tested  ## lines of the parsers, kernels included, that the inputs of the fuzz targets reach (minutes)
	@$(BIN)/python -m tools.fuzz_coverage

portable: $(VENV)/.tested  ## the tests that macOS and Windows run, here without what only Linux has
	@$(BIN)/python tools/portable.py --here

free-threaded: $(VENV)/.tested  ## the suite without the global lock, tests in several threads at once: FREE="3.13t 3.14t"
	@for version in $${FREE:-3.13t 3.14t}; do $(BIN)/python -m tools.free_threaded $$version $(TESTS) || exit 1; done

nightly: $(VENV)/.tested  ## agreement with other tools and speed beside them, as files in nightly/ (hours)
	@$(BIN)/python -m tools.nightly nightly

$(VENV)/.documented: pyproject.toml | $(VENV)/.made
	@echo "installing what the documentation needs"
	@$(UV) --compile-bytecode --group docs 2>/dev/null || { $(PIP) --upgrade pip && $(PIP) --group docs; }
	@touch $@

docs: $(VENV)/.installed $(VENV)/.documented  ## the documentation site, docs/_build/html, without a warning
	@$(BIN)/python -m sphinx -W -n --keep-going -q -b html docs docs/_build/html
	@echo docs/_build/html/index.html

release: lint docs wheels try-wheels  ## all that a release is: style, types, site, wheels tried; then the whole suite
	@$(BIN)/python -m pytest -q tests/test_packaging.py tests/test_shell_files.py tests/test_release.py
	@$(PYTEST)

wheels: $(VENV)/.released  ## dist/: the source distribution and all wheels, checked; WHEELS="musllinux-aarch64 ..." for some
	@$(BIN)/python -m tools.wheels $(WHEELS)

try-wheels: $(VENV)/.released  ## install the wheels of dist/ in clean environments, TRY="3.14 aarch64 ...", and test them there
	@$(BIN)/python -m tools.try_wheels $(TRY)

$(VENV)/.released: $(VENV)/.tested
	@$(UV) --group release 2>/dev/null || { $(PIP) --upgrade pip && $(PIP) --group release; }
	@touch $@

reproducible: $(VENV)/.tested  ## build the source distribution and the wheel twice, elsewhere, and compare the bytes (minutes)
	@$(BIN)/python -m tools.reproducible

shell-files: $(VENV)/.tested  ## completion for bash, zsh and fish, and man pages, from the parsers (Python 3.11)
	@$(BIN)/python -m tools.shell_files

checked:  ## make fuzz with kernels that check every bound, in an environment of their own
	@WHENCE_CHECKED=1 $(MAKE) VENV=.venv-checked HOW= fuzz

sanitized:  ## tests of arbitrary values with kernels under AddressSanitizer, EXAMPLES of each (300)
	@WHENCE_SANITIZED=1 $(MAKE) VENV=.venv-sanitized HOW= .venv-sanitized/.installed
	@.venv-sanitized/bin/python -m pip install -qq --disable-pip-version-check "pytest>=8" "hypothesis>=6.100"
	@LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) PYTHONMALLOC=malloc \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=3072 \
	  WHENCE_EXAMPLES=$${EXAMPLES:-300} .venv-sanitized/bin/python -m pytest -p no:cacheprovider -p no:faulthandler \
	    --hypothesis-profile exploring tests/test_values.py

clean:  ## remove what was built
	rm -rf build dist $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache demo
	find src -name '*.so' -delete
