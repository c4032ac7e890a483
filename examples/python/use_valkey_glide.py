"""valkey-glide: every command goes through custom_command.

    pip install valkey-glide-sync
    python3 use_valkey_glide.py redis://127.0.0.1:6379
"""
import sys
from urllib.parse import urlparse

from glide_sync import GlideClient, GlideClientConfiguration, NodeAddress, RequestError

address = urlparse(sys.argv[1])
client = GlideClient.create(GlideClientConfiguration([NodeAddress(address.hostname, address.port)]))
bf = client.custom_command
assert bf(["BF.RESERVE", "seen", "0.001", "1000000", "EX", "86400", "IFNOTEXISTS"]) == 1
assert bf(["BF.ADD", "seen", "alice"]) is True  # it speaks RESP3, which has booleans
assert bf(["BF.EXISTS", "seen", "bob"]) is False  # False is certain
assert bf(["BF.MADD", "seen", "alice", "bob", "carol"]) == [False, True, True]
assert bf(["BF.MEXISTS", "seen", "alice", "dave"]) == [True, False]

# An error of one item is raised for the whole batch, although the items before it were added. Look them up.
# The client also prints the error.
bf(["BF.RESERVE", "tickets", "0.01", "2", "NONSCALING"])
try:
    bf(["BF.MADD", "tickets", "1", "2", "3"])
    raise SystemExit("a full filter took an item")
except RequestError as error:
    assert "full" in str(error)
assert bf(["BF.MEXISTS", "tickets", "1", "2", "3"]) == [True, True, False]
print("done")
