# shellcheck shell=bash
# What the scripts share. Sourced, never run.

say() { printf '%s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Its arguments with commas between.
listed() {
  local list
  list=$(printf ', %s' "$@")
  say "${list#, }"
}

# What `make dist` builds for, and with; installed by scripts/setup.
# shellcheck disable=SC2034
DIST_TARGETS=(x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
# shellcheck disable=SC2034
ZIG_VERSION=0.15.2
# shellcheck disable=SC2034
declare -A TOOL_VERSIONS=([cargo-deny]=0.20.2 [cargo-zigbuild]=0.24.1 [cargo-about]=0.9.3 [cargo-cyclonedx]=0.5.9
  [cargo-mutants]=27.1.0 [cargo-fuzz]=0.13.2)
# shellcheck disable=SC2034
declare -A TOOL_FEATURES=([cargo-about]=cli)

# Where tools of our own versions are installed.
tools_dir() { say "${CARGO_TARGET_DIR:-$PWD/target}/tools"; }

# Ends the script where there is something that a clone would lack.
assert_committed() {
  [ -z "$(git status --porcelain)" ] || die "there are changes that are not committed: the clone would lack them"
}

have() { command -v "$1" >/dev/null 2>&1; }

# The mirror of Debian that this machine's apt uses.
debian_mirror() {
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources} 2>/dev/null || true; } | awk '
    $1 == "URIs:" && $2 ~ /debian\/?$/ { print $2; found = 1; exit }
    $1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^[a-z+]+:.*debian\/?$/) { print $i; found = 1; exit } }
    END { exit !found }'
}

# The oldest Rust that Cargo.toml declares.
declared_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml; }

# The server to start: SERVER, a path or a name, else the first one found.
find_server() {
  if [ -n "${SERVER:-}" ]; then
    command -v "$SERVER" || die "SERVER=$SERVER is no program"
    return
  fi
  command -v redis-server || command -v valkey-server || die "neither redis-server nor valkey-server found"
}

# A program that comes with the server: companion cli.
companion() { command -v "redis-$1" || command -v "valkey-$1"; }

# Whether something listens on that port of the loopback interface.
port_taken() { (: <>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# The first free port from that one on.
free_port() {
  local port=$1
  while port_taken "$port"; do port=$((port + 1)); done
  say "$port"
}

# Waits until the server with that process id replies on that port; fails when it ends before.
await_server() { # PID PORT
  local reply
  while kill -0 "$1" 2>/dev/null; do
    reply=$( (exec 3<>"/dev/tcp/127.0.0.1/$2" && printf 'PING\r\n' >&3 && head -n 1 <&3) 2>/dev/null) || true
    [[ $reply != +PONG* ]] || return 0
    sleep 0.1
  done
  return 1
}

# Installs Debian packages, as root. Words of apt_options go to every apt-get.
apt_install() (
  # Debian starts a server as it installs one, on the default port. Those that we install are for the tests and
  # `make run`, which start their own, so the policy that is asked before a service starts says no meanwhile.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt=(apt-get -qq -o DPkg::Lock::Timeout=120 ${apt_options[@]+"${apt_options[@]}"})
  install=("${apt[@]}" install -y --no-install-recommends "$@")
  # A machine without package lists, or with old ones, needs an update first; others are spared it.
  "${install[@]}" >/dev/null 2>&1 || { "${apt[@]}" update && "${install[@]}" >/dev/null; }
)
