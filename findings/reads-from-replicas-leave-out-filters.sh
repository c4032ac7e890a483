#!/usr/bin/env bash
# In a cluster with reads from replicas switched on, redis-py 8.1.0, valkey-py 6.2.0 and valkey-glide 2.6.0 (sync) send
# BF.EXISTS, BF.MEXISTS, CF.EXISTS and CF.COUNT to the primary, though the server flags them as read-only. Only commands
# in a list of the client go to replicas. node-redis 6.3.1 sends them to replicas as well.
#
# A good engineer would guess: all reads go to replicas, since COMMAND INFO says which commands only read; or, having seen
# one client, that the others do the same.
#
# Who is hurt: those who add replicas for lookups in filters and get no more of them: the primary stays the bottleneck.
# And those who port a program to node-redis: a lookup right after an add may miss the item on a replica, so a 0 is no
# longer certain.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0 valkey==6.2.0 valkey-glide-sync==2.6.0
npm_install redis@6.3.1

node_of_cluster() {
  start "$redis" --loadmodule "$redisbloom" --cluster-enabled yes --cluster-port "$(free_port)" --cluster-announce-ip 127.0.0.1
}
node_of_cluster
primary=$port
node_of_cluster
replica=$port

cat >"$work/reads.js" <<'J'
const { createCluster } = require('redis')
async function main () {
  const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${process.argv[2]}` }], useReplicas: true })
  await cluster.connect()
  for (let round = 0; round < 50; round++) {
    await cluster.bf.exists('seen', 'x')
    await cluster.bf.mExists('seen', ['x', 'y'])
    await cluster.cf.exists('counted', 'x')
    await cluster.cf.count('counted', 'x')
    if (round % 2) await cluster.get('string') // so that taking turns does not split the commands evenly
  }
  process.exit(0)
}
main()
J
python - "$primary" "$replica" "$work/reads.js" >"$work/output" <<'P'
import subprocess, sys, time
import glide_sync, redis, valkey
from redis.cluster import LoadBalancingStrategy

ports = [int(port) for port in sys.argv[1:3]]
nodes = [redis.Redis(port=port, protocol=2) for port in ports]
primary, replica = nodes
primary.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
replica.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[0], primary.config_get("cluster-port")["cluster-port"])
while True:
    try:
        replica.execute_command("CLUSTER", "REPLICATE", primary.execute_command("CLUSTER", "MYID"))
        break
    except redis.ResponseError:
        time.sleep(0.1)  # not met yet
while replica.info("replication")["master_link_status"] != "up" or any(
    b"cluster_state:ok" not in node.execute_command("CLUSTER", "INFO")
    or str(ports[1]) not in str(node.execute_command("CLUSTER", "SLOTS"))
    for node in nodes
):
    time.sleep(0.1)
primary.execute_command("BF.ADD", "seen", "x")
primary.execute_command("CF.ADD", "counted", "x")
primary.set("string", "value")
primary.wait(1, 10000)
flags = primary.execute_command("COMMAND", "INFO", "BF.EXISTS")["bf.exists"]["flags"]
print("the server's flags of BF.EXISTS:", *sorted(flags))


def reads(execute):
    for _ in range(50):
        execute("BF.EXISTS", "seen", "x")
        execute("BF.MEXISTS", "seen", "x", "y")
        execute("CF.EXISTS", "counted", "x")
        execute("CF.COUNT", "counted", "x")
        execute("GET", "string")


def show(name, run):
    for node in nodes:
        node.config_resetstat()
    run()
    calls = [{}, {}]
    for node, counts in zip(nodes, calls):
        for field, stat in node.info("commandstats").items():
            counts[field.removeprefix("cmdstat_").lower()] = stat["calls"]
    filters = ["bf.exists", "bf.mexists", "cf.exists", "cf.count"]
    sums = [sum(counts.get(command, 0) for command in filters) for counts in calls]
    share = lambda at_replica, at_primary: "none" if not at_replica else "all" if not at_primary else "some"
    print(f"{name}: on the replica {share(calls[1].get('get', 0), calls[0].get('get', 0))} of GET, "
          f"{share(sums[1], sums[0])} of BF and CF")


def with_redis_py():
    reads(redis.RedisCluster(host="127.0.0.1", port=ports[0],
                             load_balancing_strategy=LoadBalancingStrategy.RANDOM_REPLICA).execute_command)


def with_valkey_py():
    reads(valkey.ValkeyCluster(host="127.0.0.1", port=ports[0], read_from_replicas=True).execute_command)


def with_glide():
    client = glide_sync.GlideClusterClient.create(glide_sync.GlideClusterClientConfiguration(
        [glide_sync.NodeAddress("127.0.0.1", ports[0])], read_from=glide_sync.ReadFrom.PREFER_REPLICA))
    reads(lambda *command: client.custom_command(list(command)))


show("redis-py", with_redis_py)
show("valkey-py", with_valkey_py)
show("valkey-glide", with_glide)
show("node-redis", lambda: subprocess.run(["node", sys.argv[3], str(ports[0])], check=True))
P
holds <<'SEEN'
the server's flags of BF.EXISTS: fast module readonly
redis-py: on the replica all of GET, none of BF and CF
valkey-py: on the replica some of GET, none of BF and CF
valkey-glide: on the replica all of GET, none of BF and CF
node-redis: on the replica some of GET, some of BF and CF
SEEN
