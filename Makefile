# Everything a newcomer, a developer or a packager calls; `make` prints the list. The logic is in scripts/.

# One place for everything that is built, whatever the user's own cargo settings say.
export CARGO_TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# A build from nothing takes a quarter less time without the state for later, smaller builds, which plain `cargo` keeps.
export CARGO_INCREMENTAL ?= 0
MODULE := $(CARGO_TARGET_DIR)/release/libeverbloom.so
TOOL := $(CARGO_TARGET_DIR)/release/everbloom
PREFIX ?= /usr/local
MODULE_DIR ?= $(PREFIX)/lib/redis/modules

# What is missing is said, or installed, before minutes of building: the server too, where one is wanted.
NEEDS := build $(if $(filter run test test-server test-tool soak sanitize,$(MAKECMDGOALS)),$(if $(SERVER)$(SERVERS),,server))

# The scripts read these from the environment.
export MODULE PORT SERVER SERVERS
# So do the benchmarks.
export PEERS QUICK ONLY
# And those that make and try the packages.
export TARGETS FILTER BASE WITH
bench: export NOOP := $(CARGO_TARGET_DIR)/release/examples/libnoop.so
bench: export BASELINE := $(CARGO_TARGET_DIR)/release/libeverbloom-baseline.so

.DEFAULT_GOAL := help
.PHONY: help run build tool test test-pure test-server test-tool check advisories fuzz fuzz-smoke soak mutants sanitize defrag-server test-defrag bench charts install install-tool clean dist reproducible test-dist test-clone container release-notes

##@ Use
help: ## print this list
	@scripts/help Makefile

run: build ## start a server with the module on 127.0.0.1, in the foreground
	@exec scripts/run

build: ## build the module, installing the compiler's needs where they are missing
	@scripts/setup $(NEEDS)
	cargo build --release --locked --lib

tool: ## build everbloom, the command-line tool
	@scripts/setup $(NEEDS)
	cargo build --release --locked --no-default-features --features tool --bin everbloom

##@ Develop
test: test-pure test-server test-tool ## run all tests

test-pure: ## test the filters, formats and commands; needs no server
	@scripts/setup $(NEEDS)
	cargo test --locked --no-default-features --no-fail-fast

test-server: build ## test the module on every server on the PATH and in SERVERS
	@scripts/test-server server

test-tool: build ## test the command-line tool on the same servers
	@scripts/test-server tool

check: ## check formatting, lints, documentation, the oldest Rust, scripts, licences and advisories
	@scripts/setup build
	@scripts/check

advisories: ## check the dependencies against the database of RustSec
	@scripts/advisories

fuzz: ## let libFuzzer make up input for one target, T, for S seconds; needs a nightly compiler
	@scripts/setup build
	@scripts/fuzz "$(T)" $(or $(S),60)

fuzz-smoke: ## fuzz every target for some seconds
	@scripts/setup build
	@scripts/fuzz smoke $(or $(S),84)

soak: build ## drill servers for MINUTES minutes: random commands, kill -9, cut links, moving slots; prints a table
	@scripts/soak $(or $(MINUTES),10)

mutants: ## alter N places of the pure modules, drawn by SEED, and look whether a test notices
	@scripts/setup build mutants
	@scripts/mutants $(or $(N),200) $(or $(SEED),$(shell date +%s))

sanitize: build ## run every command and callback in a server under valgrind's memcheck
	@scripts/sanitize

defrag-server: ## build Redis with the allocator that can defragment, which Debian's servers lack, into the target directory
	@scripts/defrag-server

test-defrag: build ## test active defragmentation on that server
	@scripts/defrag-server test

# The module as users get it is built last, and so is the one that stays.
bench: ## measure everything into docs/performance-cells.csv, and make the page and its pictures from it
	@scripts/setup build server
	cargo rustc --release --locked --lib --crate-type cdylib -- --cfg baseline -A dead_code
	cp $(MODULE) $(BASELINE)
	cargo build --release --locked --lib --example noop
	$(if $(ONLY),,cargo bench --locked --no-default-features --features prefetch --bench pure)
	cargo bench --locked --no-default-features --bench server

charts: ## make docs/performance.md and its pictures anew from the cells, without measuring
	@scripts/setup build
	cargo test --locked --no-default-features --bench server -- --render

##@ Install and release
# Builds only where nothing is built, so that `make build && sudo make install` compiles nothing as root.
install: $(if $(wildcard $(MODULE)),,build) ## copy the module to MODULE_DIR
	install -D -m 755 $(MODULE) $(DESTDIR)$(MODULE_DIR)/everbloom.so
	@echo 'Load it with this line in redis.conf or valkey.conf: loadmodule $(MODULE_DIR)/everbloom.so'

install-tool: $(if $(wildcard $(TOOL)),,tool) ## copy the command-line tool to PREFIX/bin
	install -D -m 755 $(TOOL) $(DESTDIR)$(PREFIX)/bin/everbloom

dist: ## build the packages of a release into dist/: tarballs, debs, checksums
	@scripts/dist

reproducible: ## build them again somewhere else, and compare
	@scripts/reproducible

test-dist: ## try the packages in clean systems, as root: install, load, and all server tests on aarch64 and musl
	@scripts/test-dist $(PARTS)

test-clone: ## run GOALS as a stranger does: in a new clone, with an empty environment
	@scripts/test-clone $(or $(GOALS),dist TARGETS=x86_64-unknown-linux-gnu)

container: ## make the images of Valkey and Redis with the packages, and try them, as root
	@scripts/container $(IMAGES)

release-notes: ## print the part of the changelog that belongs to TAG
	@scripts/release-notes $(TAG)

clean: ## remove everything built, and the data of `make run`
	cargo clean

#: PORT=n        port of `make run` (default: 6379, or the next free one)
#: SERVER=path   server of `make run` and `make bench` (default: redis-server, else valkey-server)
#: SERVERS=a,b   more servers for `make test-server` and `make test-tool`, besides those on the PATH
#: PEERS="n=path argument ... n=path ..."  other modules that `make bench` measures too, with their names and load arguments; QUICK=1: only try it, on small filters; ONLY=1-GB,unreserved,instructions,merge,grown,packed: only these filters, those that nobody reserved, the instructions, BF.MERGE, or the error rates of grown filters
#: TARGETS="..."  of `make dist`: only these, as Rust calls them (default: four)
#: PARTS="..."    of `make test-dist`: deb, aarch64, musl (default: all); FILTER=word: only the server tests with it in their name
#: GOALS="..."   of `make test-clone`: targets and variables (default: dist TARGETS=x86_64-unknown-linux-gnu)
#: IMAGES="..."  of `make container`: valkey, redis (default: both); WITH=chroot: without buildah; BASE=image: to start from, instead of one that is made of the mirror
#: T=name S=n     target of `make fuzz` (see fuzz/targets) and its time in seconds
#: N=n SEED=s     alterations of `make mutants` (default: 200), and what they are drawn by (default: the time; it is printed)
#: MINUTES=n      time of `make soak` in all (default: 10)
#: PREFIX=path   of `make install` and `make install-tool` (default: /usr/local); MODULE_DIR=path (default: PREFIX/lib/redis/modules); DESTDIR=path
#: CARGO_TARGET_DIR=path  where everything is built (default: target)
