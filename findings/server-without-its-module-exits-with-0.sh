#!/usr/bin/env bash
# Redis 8.2.3 and Valkey 9.1.2: a server that cannot load its snapshot because a module is missing ends with exit status 0.
# So does a replica whose primary has such keys. With the same data as commands in an append-only file it ends with 1.
#
# A good engineer would guess: a status other than 0 in every case, as after any failure at start.
#
# Who is hurt: users of a manager that restarts on failure only (Restart=on-failure of systemd, on-failure of Docker,
# OnFailure of Kubernetes) or that alarms on a status other than 0. After an upgrade that lost the module, the server is
# down, and its manager takes this for a planned stop.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
get_valkey
pip_install redis==8.1.0

say() { python -c 'import redis, sys; redis.Redis(port=int(sys.argv[1])).execute_command(*sys.argv[2:])' "$port" "$@"; }
status() { # COMMAND...: its exit status, or "running" after 20 seconds
  local status=0
  timeout 20 "$@" >"$work/end" 2>&1 || status=$?
  [ $status = 124 ] && status=running
  echo "$status, $(grep -oE 'no matching module type .*|[Uu]nknown command .BF.ADD.' "$work/end")"
}

for server in "$redis" "$valkey"; do
  "$server" --version | cut -d' ' -f 1-3
  start "$server" --loadmodule "$redisbloom"
  say BF.ADD seen item
  alone=(--bind 127.0.0.1 --port "$(free_port)")
  mkdir "$dir/replica"
  echo "replica: $(status "$server" "${alone[@]}" --dir "$dir/replica" --replicaof 127.0.0.1 "$port")"
  say SAVE
  stop "$pid"
  echo "snapshot: $(status "$server" "${alone[@]}" --dir "$dir")"
  start "$server" --loadmodule "$redisbloom" --appendonly yes
  say BF.ADD seen item
  stop "$pid"
  echo "append-only file: $(status "$server" "${alone[@]}" --dir "$dir" --appendonly yes)"
done >"$work/output"
holds <<'SEEN'
Redis server v=8.2.3
replica: 0, no matching module type 'MBbloom--'
snapshot: 0, no matching module type 'MBbloom--'
append-only file: 1, Unknown command 'BF.ADD'
Valkey server v=9.1.2
replica: 0, no matching module type 'MBbloom--'
snapshot: 0, no matching module type 'MBbloom--'
append-only file: 1, unknown command 'BF.ADD'
SEEN
