# Everything a newcomer, a developer or a packager calls; `make` prints the list. The logic is in scripts/.

# One place for everything that is built, whatever the user's own cargo settings say.
export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
MODULE := $(CARGO_TARGET_DIR)/release/libeverbloom.so
PREFIX ?= /usr/local
MODULE_DIR ?= $(PREFIX)/lib/redis/modules

# The scripts read these from the environment.
export MODULE PORT SERVER SERVERS
# So do the benchmarks.
export PEERS QUICK ONLY
bench: export NOOP := $(CARGO_TARGET_DIR)/release/examples/libnoop.so
bench: export BASELINE := $(CARGO_TARGET_DIR)/release/libeverbloom-baseline.so

.DEFAULT_GOAL := help
.PHONY: help run build test test-pure test-server check bench install clean

help: ## print this list
	@scripts/help Makefile

run: build ## start a server with the module on 127.0.0.1, in the foreground
	@exec scripts/run

build: ## build the module, installing the compiler's needs where they are missing
	@scripts/setup build
	cargo build --release --locked --lib

test: test-pure test-server ## run all tests

test-pure: ## test the filters, formats and commands; needs no server
	@scripts/setup build
	cargo test --locked --no-default-features --no-fail-fast

test-server: build ## test the module on every server on the PATH and in SERVERS
	@scripts/test-server

check: ## check formatting, lints, documentation, the oldest Rust, scripts, licences and advisories
	@scripts/setup build
	@scripts/check

# The module as users get it is built last, and so is the one that stays.
bench: ## measure everything and write docs/performance.md from it
	@scripts/setup build server
	cargo rustc --release --locked --lib --crate-type cdylib -- --cfg baseline -A dead_code
	cp $(MODULE) $(BASELINE)
	cargo build --release --locked --lib --example noop
	$(if $(ONLY),,cargo bench --locked --no-default-features --features prefetch --bench pure)
	cargo bench --locked --no-default-features --bench server

# Builds only where nothing is built, so that `make build && sudo make install` compiles nothing as root.
install: $(if $(wildcard $(MODULE)),,build) ## copy the module to MODULE_DIR
	install -D -m 755 $(MODULE) $(DESTDIR)$(MODULE_DIR)/everbloom.so
	@echo 'Load it with this line in redis.conf or valkey.conf: loadmodule $(MODULE_DIR)/everbloom.so'

clean: ## remove everything built, and the data of `make run`
	cargo clean

#: PORT=n        port of `make run` (default: 6379, or the next free one)
#: SERVER=path   server of `make run` and `make bench` (default: redis-server, else valkey-server)
#: SERVERS=a,b   more servers for `make test-server`, besides those on the PATH
#: PEERS="n=path ..."  other modules that `make bench` measures too, with their names; QUICK=1: only try it, on small filters; ONLY=1-GB,instructions,merge,packed: only these filters, or the instructions, BF.MERGE, or packed batches
#: PREFIX=path   of `make install` (default: /usr/local); MODULE_DIR=path (default: PREFIX/lib/redis/modules); DESTDIR=path
#: CARGO_TARGET_DIR=path  where everything is built (default: target)
