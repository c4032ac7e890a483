# shellcheck shell=bash
# Functions and constants for the other scripts, which source this file.

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Prints its arguments, separated by commas.
listed() {
  local list
  list=$(printf ', %s' "$@")
  say "${list#, }"
}

# The packages with tests. Cargo compiles a package again if it is built beside other packages that want other features of it,
# so the tests name the same packages everywhere.
# shellcheck disable=SC2034
TESTED=(--workspace --exclude everbloom-module)

# The targets of a release, and those that `make dist` builds.
DIST_TARGETS=(x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
# shellcheck disable=SC2034
read -r -a targets <<<"${TARGETS:-${DIST_TARGETS[*]}}"

# The tools, which scripts/setup installs. The packages of PyPI bring compiled programs.
# shellcheck disable=SC2034
ZIG_VERSION=0.15.2 ZIGBUILD_VERSION=0.24.0 MATURIN_VERSION=1.16.0
# shellcheck disable=SC2034
KUBERNETES_VALIDATE_VERSION=1.37.0
# shellcheck disable=SC2034
PANDOC_VERSION=1.17 # of pypandoc_binary, which brings pandoc 3.9
# shellcheck disable=SC2034
declare -A TOOL_VERSIONS=([cargo-deny]=0.20.2 [cargo-about]=0.9.3 [cargo-cyclonedx]=0.5.9 [cargo-mutants]=27.1.0
  [cargo-fuzz]=0.13.2 [cargo-llvm-cov]=0.9.1)
# Those that PyPI has as compiled programs, built by Astral: astral-dev-toolchain-NAME. Compiling one takes minutes.
# shellcheck disable=SC2034
TOOLS_ON_PYPI=" cargo-deny cargo-fuzz cargo-llvm-cov "
# shellcheck disable=SC2034
declare -A TOOL_FEATURES=([cargo-about]=cli)
# The crates of a tool that are compiled with optimization, because most of its time is spent in them.
# shellcheck disable=SC2034
declare -A TOOL_OPTIMIZED=([cargo-about]="spdx regex-automata aho-corasick memchr unicode-normalization libmimalloc-sys")

# Prints the directory of tools in pinned versions.
tools_dir() { say "${CARGO_TARGET_DIR:-$PWD/target}/tools"; }

# Exits if the working tree has uncommitted changes, which a clone would not have.
assert_committed() {
  [ -z "$(git status --porcelain)" ] || die "commit or stash your changes first: a clone does not have them"
}

have() { command -v "$1" >/dev/null 2>&1; }

# Prints the failed and skipped tests in a log of tests, then their numbers. Fails if a test failed or none passed.
print_total() {
  local passed wrong skipped
  # The list of `make test` may be in the log too.
  grep -E '^test .* \.\.\. (FAILED|ignored)' "$1" | sort -u || true
  read -r passed wrong skipped < <(awk '
    /^test result:/ { passed += $4; wrong += $6; skipped += $8 }
    END { print passed + 0, wrong + 0, skipped + 0 }' "$1")
  say "$passed passed, $wrong failed, $skipped skipped"
  [ "$wrong" -eq 0 ] && [ "$passed" -gt 0 ]
}

# Appends a figure of a run to docs/runs.csv if RECORD is set: record RUN CASE RESULT COMMAND
record() {
  [ -n "${RECORD:-}" ] || return 0
  printf '%s,%s,"%s","%s","%s"\n' "$(date -u +%F)" "$1" "${2//\"/\"\"}" "${3//\"/\"\"}" "$4" >>docs/runs.csv
}

# Copies its input. Prints how long the script has run if there is no input for QUIET_SECONDS.
with_progress() {
  local line text='' code
  while true; do
    code=0
    IFS= read -r -t "${QUIET_SECONDS:-20}" line || code=$?
    text+=$line
    # Codes above 128 are a timeout: the text is the beginning of a line.
    if [ "$code" -gt 128 ]; then
      say "... still running after $SECONDS s"
    elif [ "$code" -eq 0 ]; then
      say "$text" && text=''
    else
      [ -z "$text" ] || say "$text"
      return
    fi
  done
}

# Prints the Debian mirror that this machine's apt uses.
debian_mirror() {
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null || true; } | awk '
    $1 == "URIs:" && $2 ~ /debian\/?$/ { print $2; found = 1; exit }
    $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z+]+:.*debian\/?$/) { print $i; found = 1; exit } }
    END { exit !found }'
}

# Prints the oldest supported Rust, which Cargo.toml declares.
declared_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml; }

# Prints the path of the server to start: SERVER (a path or a name), or the first one that is found.
find_server() {
  if [ -n "${SERVER:-}" ]; then
    command -v "$SERVER" || die "SERVER=$SERVER is not a program: give the path of a redis-server or valkey-server"
    return
  fi
  command -v redis-server || command -v valkey-server || die "no server found: install redis-server or valkey-server, or set SERVER=path"
}

# Prints the path of a program that comes with the server: companion cli
companion() { command -v "redis-$1" || command -v "valkey-$1"; }

# Succeeds if a process listens on this port of the loopback interface.
port_taken() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Prints the first free port that is not below the given one.
free_port() {
  local port=$1
  while port_taken "$port"; do port=$((port + 1)); done
  say "$port"
}

# Waits until the server with this process id replies on this port. Fails if the server exits first.
await_server() { # PID PORT
  local reply
  while kill -0 "$1" 2>/dev/null; do
    reply=$( (exec 3<>"/dev/tcp/127.0.0.1/$2" && printf 'PING\r\n' >&3 && head -n 1 <&3) 2>/dev/null) || true
    [[ $reply != +PONG* ]] || return 0
    sleep 0.1
  done
  return 1
}

# Installs Debian packages as root. The words of apt_options are passed to every apt-get.
apt_install() (
  # Debian starts a server on the default port when it installs one. The tests and `make run` start their own servers,
  # so a policy file forbids the start of services during the installation.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt=(apt-get -qq -o DPkg::Lock::Timeout=120 ${apt_options[@]+"${apt_options[@]}"})
  install=("${apt[@]}" install -y --no-install-recommends "$@")
  # Package lists are updated only if the installation fails without an update.
  "${install[@]}" >/dev/null 2>&1 || { "${apt[@]}" update && "${install[@]}" >/dev/null; }
)

# Debian systems in directories, made from the mirror that this machine's apt uses. They are kept in the target directory for
# the next run.
systems=${CARGO_TARGET_DIR:-$PWD/target}/systems

needs_systems() {
  if [ "$(id -u)" -ne 0 ] || ! have apt-get; then die "this script needs root and apt"; fi
  have debootstrap || apt_install debootstrap
  mirror=$(debian_mirror) || die "no Debian mirror in the sources of apt"
  mkdir -p "$systems"
}

# Runs a command in a system.
in_root() { # ROOT COMMAND...
  DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$@"
}

# Makes a minimal system and prints its directory: minimal SUITE ARCHITECTURE
minimal() {
  local root=$systems/$1-$2
  if [ ! -e "$root.whole" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --arch="$2" "$1" "$root" "$mirror" >"$root.log" 2>&1 ||
      { tail -n 20 "$root.log" >&2 && return 1; }
    cp /etc/hosts /etc/resolv.conf "$root/etc" 2>/dev/null || true
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*
    touch "$root.whole"
  fi
  say "$root"
}
