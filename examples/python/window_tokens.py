"""Token denylist: a token that was revoked is refused until it would have expired anyway, and takes no memory after that.

Set `bf.missing-filter error` on the server: if the key is lost, is_accepted then raises an error. Otherwise it would
accept the tokens that were revoked.

    pip install redis
    python3 window_tokens.py redis://127.0.0.1:6379
"""
import sys
import time
import uuid

import redis

LONGEST_LIFE_SECONDS = 86_400  # no token is valid for longer
client = redis.Redis.from_url(sys.argv[1])
client.execute_command("BF.RESERVE", "revoked", 0.0001, 100_000, "WINDOW", LONGEST_LIFE_SECONDS, "IFNOTEXISTS")


def revoke(token):
    """Refuses a token from now on. A token that has expired needs no entry."""
    if token["exp"] > time.time() + 1:
        client.execute_command("BF.ADD", "revoked", token["jti"], "LIFEAT", token["exp"])


def is_accepted(token):
    """Returns whether a token, whose signature was checked before, is accepted."""
    if token["exp"] <= time.time():
        return False
    # One valid token in ten thousand is refused: its owner logs in again.
    return not client.execute_command("BF.EXISTS", "revoked", token["jti"])


def token(seconds):
    return {"jti": str(uuid.uuid4()), "exp": int(time.time()) + seconds}


short, long, other = token(900), token(80_000), token(900)
for one in (short, long):
    revoke(one)
assert not is_accepted(short) and not is_accepted(long) and is_accepted(other)
revoke(token(-5))  # has expired already
# The filter keeps an id until its token has expired, and at most a fourteenth of a day longer.
left = client.execute_command("BF.TTL", "revoked", short["jti"])
assert 898 <= left <= 900 + LONGEST_LIFE_SECONDS / 14 + 1, left
assert client.execute_command("BF.TTL", "revoked", other["jti"]) == -2
assert client.execute_command("BF.CARD", "revoked") == 2
print("done")
