# The commands for users, developers and packagers. `make` lists them. The logic is in scripts/.

# Everything is built in one directory, whatever the user's cargo configuration is.
export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# A first build takes a quarter less time without incremental compilation. Plain `cargo` still uses it.
export CARGO_INCREMENTAL ?= 0
# Rust's installer changes the PATH of later logins only.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
MODULE := $(CARGO_TARGET_DIR)/release/libeverbloom.so
TOOL := $(CARGO_TARGET_DIR)/release/everbloom
PREFIX ?= /usr/local
# Whatever PREFIX is: Debian's systemd units let the server execute files below /usr/lib and /lib only.
MODULE_DIR ?= /usr/lib/redis/modules

# Before a build, which takes minutes, missing software is installed or listed. Some targets also need a server.
NEEDS := build $(if $(filter run test test-server test-tool clients soak sanitize,$(MAKECMDGOALS)),$(if $(SERVER)$(SERVERS),,server))

# The scripts read these from the environment.
export MODULE PORT SERVER SERVERS
# The benchmarks read these.
export BEFORE ITEMS ONLY OUTPUT PEERS QUICK
# The scripts that build and test packages read these.
export TARGETS FILTER OFFICIAL

.DEFAULT_GOAL := help
.PHONY: help run check-port build tool findings test test-pure test-server test-tool clients test-clients check advisories fuzz fuzz-smoke exhaust soak mutants coverage sanitize defrag-server test-defrag bench charts install install-tool clean dist reproducible test-dist test-clone container release-notes

##@ Use
help: ## print this list
	@echo 'make TARGET [VARIABLE=value ...]'
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile
	@printf '\nVariables\n' && sed -n 's/^#: /  /p' Makefile

run: check-port build ## start a server with the module on 127.0.0.1, in the foreground
	@exec scripts/run

check-port:
	@scripts/run check

build: ## build the module; as root on Debian, also install missing build tools
	@scripts/setup $(NEEDS)
	@[ -e $(MODULE) ] || echo 'A first build takes two to four minutes on an idle machine.'
	@scripts/build --lib

tool: ## build the command-line tool, everbloom
	@scripts/setup $(NEEDS)
	@[ -e $(TOOL) ] || echo 'A first build takes two to four minutes on an idle machine.'
	@scripts/build -p everbloom-tool

##@ Develop
test: ## run all tests
	@scripts/setup $(NEEDS)
	@scripts/test test-pure test-server test-tool clients

test-pure: ## run the tests that need no server: filters, formats, commands, parts of the tool
	@scripts/setup $(NEEDS)
	cargo test --locked --workspace --exclude everbloom-module --no-fail-fast

test-server: build ## test the module on every server on the PATH and in SERVERS
	@scripts/test-server server

test-tool: build ## test the command-line tool on the same servers
	@scripts/test-server tool

clients: build ## build the Python package in clients/python and test it on the same servers
	@scripts/test-python $(TESTS)

test-clients: build ## run the examples with the newest client libraries of the registries
	@NEWEST=1 scripts/test-server server clients::

check: ## check formatting, lints, documentation, the oldest supported Rust, scripts, licences and advisories
	@scripts/setup build
	@scripts/check

advisories: ## check the dependencies against the RustSec advisory database
	@scripts/check advisories

findings: ## check what we found out about other software, in public packages; needs pip, npm and a network
	@failed=; for finding in findings/*.sh; do [ -x $$finding ] || continue; echo "== $$finding"; \
	  $$finding || failed="$$failed $${finding##*/}:$$?"; done; \
	[ -z "$$failed" ] || { echo "Changed (1) or not checked (2):$$failed" >&2; exit 1; }

fuzz: ## fuzz the target T with libFuzzer for S seconds; needs a nightly compiler
	@scripts/setup build
	@scripts/fuzz "$(T)" $(or $(S),60)

fuzz-smoke: ## fuzz every target, for S seconds in total
	@scripts/setup build
	@scripts/fuzz smoke $(or $(S),84)

exhaust: ## run the long form of the tests, every history of five operations, and N histories of a deployment
	@scripts/setup build
	EVERBLOOM_TESTS=full cargo test --locked -p everbloom-tests -p everbloom-measured-tests -p everbloom-filter --lib --test pure --test measured
	WORLDS_OPERATIONS=5 DEPLOYMENT_HISTORIES=$(or $(N),100000) cargo test --locked -p everbloom-tests --test starved -- \
	  worlds deployment --nocapture

soak: build ## run random commands with crashes, cut links and slot migrations for MINUTES minutes; print a table
	@scripts/soak $(or $(MINUTES),10)

mutants: ## alter each line of the pure modules that differs from BASE: each alteration must make a test fail
	@scripts/setup build mutants
	git diff $(or $(BASE),HEAD~1) -- src > $(CARGO_TARGET_DIR)/changed.diff
	PATH="$(CARGO_TARGET_DIR)/tools/bin:$$PATH" cargo mutants --in-diff $(CARGO_TARGET_DIR)/changed.diff --output $(CARGO_TARGET_DIR)

coverage: ## print the lines of the pure modules that the tests without a server run; fails below 97 %
	@scripts/setup build coverage
	rustup component add llvm-tools >/dev/null 2>&1 || true
	PATH="$(CARGO_TARGET_DIR)/tools/bin:$$PATH" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/coverage cargo llvm-cov \
	  --workspace --exclude everbloom-module --exclude everbloom-tool --lib --test pure --test measured --test starved --summary-only \
	  --ignore-filename-regex '(tests|fuzz|tool|module|library)' \
	  --fail-under-lines 97

sanitize: build ## run every command and callback in a server under valgrind's memcheck
	@scripts/sanitize

defrag-server: ## install a Redis with its own jemalloc, which active defragmentation needs, in the target directory
	@scripts/defrag-server

test-defrag: build ## test active defragmentation on that server
	@scripts/defrag-server test

bench: ## measure filters in servers and write docs/performance.csv
	@scripts/setup build server
	cargo build --release --locked --lib
	cargo bench --locked -p everbloom-server-tests --bench servers

charts: ## draw docs/charts from docs/performance.csv and docs/performance-peers.csv
	python3 -m venv $(CARGO_TARGET_DIR)/charts-venv
	$(CARGO_TARGET_DIR)/charts-venv/bin/pip install --quiet --disable-pip-version-check matplotlib==3.10.8
	$(CARGO_TARGET_DIR)/charts-venv/bin/python3 benches/charts.py docs

##@ Install and release
NOT_INSTALLED = { echo 'Not installed. If the permission is missing: sudo make $@'; exit 1; }

# Builds only if no build exists, so that `make build && sudo make install` compiles nothing as root.
install: $(if $(wildcard $(MODULE)),,build) ## copy the module to MODULE_DIR
	install -D -m 755 $(MODULE) $(DESTDIR)$(MODULE_DIR)/everbloom.so || $(NOT_INSTALLED)
	@echo 'Load it with this line in redis.conf or valkey.conf: loadmodule $(MODULE_DIR)/everbloom.so'

install-tool: $(if $(wildcard $(TOOL)),,tool) ## copy the command-line tool to PREFIX/bin
	install -D -m 755 $(TOOL) $(DESTDIR)$(PREFIX)/bin/everbloom || $(NOT_INSTALLED)

dist: ## build the packages of a release in dist/: tarballs, .deb, .rpm, checksums
	@scripts/dist

reproducible: ## build the packages twice, in different directories, and compare them
	@scripts/reproducible

test-dist: ## install and load the packages in clean systems, run the server tests on aarch64 and musl; needs root
	@scripts/test-dist $(PARTS)

test-clone: ## run the targets GOALS in a new clone with an empty environment
	@scripts/test-clone $(or $(GOALS),dist TARGETS=x86_64-unknown-linux-gnu)

container: ## build container images of Valkey and Redis with the Dockerfile and test them; needs root
	@scripts/container $(IMAGES)

release-notes: ## print the section of the changelog for TAG
	@scripts/release-notes $(TAG)

clean: ## remove everything that was built
	cargo clean

#: BASE=commit      `make mutants` alters the lines that differ from it (default: HEAD~1)
#: BEFORE=path      our module of an earlier version, which `make bench` also measures
#: CARGO_TARGET_DIR=path  directory of everything that is built (default: target)
#: DESTDIR=path     root directory for `make install` and `make install-tool` (default: none)
#: FILTER=word      run only the server tests with this word in their name in `make test-dist`
#: GOALS="..."      targets and variables of `make test-clone` (default: dist TARGETS=x86_64-unknown-linux-gnu)
#: IMAGES="..."     images of `make container`: valkey, redis (default: both)
#: ITEMS=a,b        numbers of items in the filters of `make bench`, multiples of 1000 (default: 1000 to 10000000)
#: MINUTES=n        total duration of `make soak` (default: 10)
#: RECORD=1          append the figures of `make soak` and `make fuzz` to docs/runs.csv
#: MODULE_DIR=path  directory for `make install` (default: /usr/lib/redis/modules)
#: N=n              number of histories of `make exhaust` (default: 100000)
#: ONLY=a,b         measure only these in `make bench`: commands, growth, window, blocking, instructions
#: OFFICIAL=1       build the images of `make container` from the official images, not from a minimal Debian
#: OUTPUT=file      results of `make bench` (default: docs/performance.csv for a whole run)
#: PARTS="..."      parts of `make test-dist`: deb, rpm, aarch64, musl, wheel (default: all)
#: PEERS=a,b        other modules that `make bench` also measures; load arguments may follow each path
#: PORT=n           port of `make run` (default: 6379, or the next free port)
#: PREFIX=path      prefix of `make install-tool` (default: /usr/local)
#: QUICK=1          run `make bench` on small filters, only to check that it works
#: S=n              seconds of `make fuzz` (default: 60) and `make fuzz-smoke` (default: 84)
#: SERVER=path      server of `make run` and `make bench` (default: redis-server, else valkey-server)
#: SERVERS=a,b      servers that `make test-server`, `make test-tool` and `make clients` use besides those on the PATH
#: T=name           target of `make fuzz`, a program in fuzz/Cargo.toml
#: TAG=vX.Y.Z       release of `make release-notes`
#: TESTS="..."      tests of `make clients`, such as test_near.Forks (default: all)
#: TARGETS="..."    Rust targets of `make dist` (default: four)
