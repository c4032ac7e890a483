#!/usr/bin/env bash
# redis-py 8.1.0 and valkey-py 6.2.0: when no node of a cluster can be reached, a command of a cluster client raises
# RedisClusterException or ValkeyClusterException. They are no subclasses of RedisError and ValkeyError, the base of all
# other exceptions. So `except RedisError` around a lookup, which asks the database instead, does not catch it.
#
# A good engineer would guess: RedisError is the base of all, as for a client of one server, whose outage it catches.
#
# Who is hurt: programs that put a filter in front of a database and do without it when it cannot be asked. The outage of
# one server is caught, that of the cluster ends the request.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0 valkey==6.2.0
start "$redis" --loadmodule "$redisbloom" --cluster-enabled yes
cluster=$port:$pid
start "$redis" --loadmodule "$redisbloom"

python - "$cluster" "$port:$pid" >"$work/output" <<'P'
import os, signal, socket, sys, time
import redis, valkey

(cluster_port, cluster_pid), (port, pid) = ([int(part) for part in one.split(":")] for one in sys.argv[1:])
node = redis.Redis(port=cluster_port)
node.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
while node.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
    time.sleep(0.1)
node.execute_command("BF.ADD", "seen", "x")
redis.Redis(port=port).execute_command("BF.ADD", "seen", "x")

clients = {
    "redis-py, a server": (redis.Redis(port=port), redis.RedisError),
    "redis-py, a cluster": (redis.RedisCluster(host="127.0.0.1", port=cluster_port), redis.RedisError),
    "valkey-py, a server": (valkey.Valkey(port=port), valkey.ValkeyError),
    "valkey-py, a cluster": (valkey.ValkeyCluster(host="127.0.0.1", port=cluster_port), valkey.ValkeyError),
}
for client, _ in clients.values():
    assert client.execute_command("BF.EXISTS", "seen", "x") == 1
for process in pid, cluster_pid:
    os.kill(process, signal.SIGTERM)
for stopped in port, cluster_port:
    while socket.socket().connect_ex(("127.0.0.1", stopped)) == 0:
        time.sleep(0.1)
for name, (client, base) in clients.items():
    for number in "first", "second":
        try:
            client.execute_command("BF.EXISTS", "seen", "x")
        except base as error:
            print(f"{name}: {number} lookup without servers: {type(error).__name__}, caught")
        except Exception as error:
            print(f"{name}: {number} lookup without servers: {type(error).__name__}, not caught")
P
holds <<'SEEN'
redis-py, a server: first lookup without servers: ConnectionError, caught
redis-py, a server: second lookup without servers: ConnectionError, caught
redis-py, a cluster: first lookup without servers: RedisClusterException, not caught
redis-py, a cluster: second lookup without servers: RedisClusterException, not caught
valkey-py, a server: first lookup without servers: ConnectionError, caught
valkey-py, a server: second lookup without servers: ConnectionError, caught
valkey-py, a cluster: first lookup without servers: ValkeyClusterException, not caught
valkey-py, a cluster: second lookup without servers: ValkeyClusterException, not caught
SEEN
