#!/usr/bin/env bash
# redis-py 8.1.0: after a lost reply, redis.Redis(host, port) sends the command again, up to ten times, and
# redis.Redis.from_url(url) does not. Lookups are the same twice, adds are not: BF.ADD of a new item returns False, CF.ADD
# counts twice, CF.DEL removes two occurrences. No error, no warning.
#
# A good engineer would guess: two constructors with the same defaults, and no repeats of commands that change data.
# valkey-py 6.2.0, a fork, repeats in neither way.
#
# Who is hurt: programs that take the reply 0 of an add as "processed before" (an order is never processed), and all who
# count with cuckoo filters. A change from a URL to a host and a port changes the numbers.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0 valkey==6.2.0
start "$redis" --loadmodule "$redisbloom"

python - "$port" >"$work/output" <<'P'
import socket, sys, threading
import redis, valkey

port = int(sys.argv[1])


class Proxy:
    """Forwards to the server. Loses the next `losses` replies to BF.* and CF.*: closes the connection in their place."""

    def __init__(self):
        self.losses = self.sent = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client = self.listener.accept()[0]
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            while request := client.recv(65536):
                server.sendall(request)
                reply = server.recv(65536)
                if b"BF." in request or b"CF." in request:
                    self.sent += 1
                    if self.losses:
                        self.losses -= 1
                        return
                client.sendall(reply)


direct = redis.Redis(port=port, protocol=2)


def one_lost_reply(name, connect):
    direct.flushall()
    direct.execute_command("CF.INSERT", "deleted", "ITEMS", "x", "x", "x")
    for command in ("BF.ADD", "seen"), ("CF.ADD", "counted"), ("CF.DEL", "deleted"):
        proxy = Proxy()
        client = connect(proxy.port)
        client.ping()
        proxy.losses, proxy.sent = 1, 0
        try:
            reply = client.execute_command(*command, "x")
        except Exception as error:
            reply = type(error).__name__
        print(f"{name}: {command[0]} -> {reply}, sent {proxy.sent}")
    counts = [direct.execute_command("CF.COUNT", key, "x") for key in ("counted", "deleted")]
    print(f"  x counts {counts[0]} instead of 1, and {counts[1]} instead of 2 after one deletion of three")


one_lost_reply("redis-py Redis()", lambda port: redis.Redis(port=port))
one_lost_reply("redis-py from_url", lambda port: redis.Redis.from_url(f"redis://127.0.0.1:{port}"))
one_lost_reply("valkey-py Valkey()", lambda port: valkey.Valkey(port=port))
proxy = Proxy()
proxy.losses = 1000
try:
    redis.Redis(port=proxy.port).execute_command("CF.ADD", "all lost", "x")
except redis.ConnectionError:
    print("redis-py Redis(), every reply lost: x counts", direct.execute_command("CF.COUNT", "all lost", "x"))
P
holds <<'SEEN'
redis-py Redis(): BF.ADD -> False, sent 2
redis-py Redis(): CF.ADD -> True, sent 2
redis-py Redis(): CF.DEL -> True, sent 2
  x counts 2 instead of 1, and 1 instead of 2 after one deletion of three
redis-py from_url: BF.ADD -> ConnectionError, sent 1
redis-py from_url: CF.ADD -> ConnectionError, sent 1
redis-py from_url: CF.DEL -> ConnectionError, sent 1
  x counts 1 instead of 1, and 2 instead of 2 after one deletion of three
valkey-py Valkey(): BF.ADD -> ConnectionError, sent 1
valkey-py Valkey(): CF.ADD -> ConnectionError, sent 1
valkey-py Valkey(): CF.DEL -> ConnectionError, sent 1
  x counts 1 instead of 1, and 2 instead of 2 after one deletion of three
redis-py Redis(), every reply lost: x counts 11
SEEN
