#!/usr/bin/env python3
"""Moves a filter of go-zero's core/bloom from a SETBIT string to everbloom without losing an item.

    pip install redis
    python3 migrate.py redis://127.0.0.1:6379

The first half imitates go-zero: its hash, its positions and its two Lua scripts. The second half is the migration. It
works while other programs still write to the string. The key {visits} is the string, {visits}:bf the new filter.
"""

import sys

import redis

BITS = 20_000
PROBES = 14
STRING, FILTER = "{visits}", "{visits}:bf"

# What go-zero sends with EVAL to set and to test the bits of one item.
SET_BITS = """
for _, offset in ipairs(ARGV) do
    redis.call("setbit", KEYS[1], offset, 1)
end
"""
TEST_BITS = """
for _, offset in ipairs(ARGV) do
    if tonumber(redis.call("getbit", KEYS[1], offset)) == 0 then
        return false
    end
end
return true
"""

MASK = (1 << 64) - 1
C1, C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F


def rotl(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & MASK


def mix(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return word ^ word >> 33


def murmur3(data: bytes) -> int:
    """Returns the first half of MurmurHash3 x64_128 with seed 0."""
    h1 = h2 = 0
    whole = len(data) - len(data) % 16
    for start in range(0, whole, 16):
        k1 = int.from_bytes(data[start : start + 8], "little")
        k2 = int.from_bytes(data[start + 8 : start + 16], "little")
        h1 ^= rotl(k1 * C1 & MASK, 31) * C2 & MASK
        h1 = ((rotl(h1, 27) + h2) * 5 + 0x52DCE729) & MASK
        h2 ^= rotl(k2 * C2 & MASK, 33) * C1 & MASK
        h2 = ((rotl(h2, 31) + h1) * 5 + 0x38495AB5) & MASK
    tail = data[whole:]
    h2 ^= rotl(int.from_bytes(tail[8:], "little") * C2 & MASK, 33) * C1 & MASK
    h1 ^= rotl(int.from_bytes(tail[:8], "little") * C1 & MASK, 31) * C2 & MASK
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    return (mix(h1) + mix(h2)) & MASK


def positions(item: str) -> list[int]:
    return [murmur3(item.encode() + bytes([probe])) % BITS for probe in range(PROBES)]


def go_zero_add(client: redis.Redis, item: str) -> None:
    client.eval(SET_BITS, 1, STRING, *positions(item))


def go_zero_exists(client: redis.Redis, item: str) -> bool:
    return client.eval(TEST_BITS, 1, STRING, *positions(item)) == 1


def migrate(client: redis.Redis) -> None:
    client.delete(STRING, FILTER)
    members = [f"user:{number}" for number in range(1000)]
    absent = [f"guest:{number}" for number in range(2000)]
    for item in members[:900]:
        go_zero_add(client, item)

    # 1. Import the bits.
    # The string was sized for 1000 items. With CAPACITY 1200, the filter grows only after 1200 items.
    import_command = ("BF.IMPORT", FILTER, "SOURCE", STRING, "SCHEME", "go-zero", "BITS", BITS, "CAPACITY", 1200)
    client.execute_command(*import_command)

    # 2. New writers write to both. An old writer still writes to the string only.
    for item in members[900:950]:
        go_zero_add(client, item)
        client.execute_command("BF.ADD", FILTER, item)
    for item in members[950:]:
        go_zero_add(client, item)

    # 3. When no old writer is left, import once more. Now no item is missing.
    client.execute_command(*import_command, "REPLACE")

    # 4. Every reply equals go-zero's, false positives included. One command looks up any number of items.
    replies = client.execute_command("BF.MEXISTS", FILTER, *members, *absent)
    expected = [go_zero_exists(client, item) for item in members + absent]
    assert [reply == 1 for reply in replies] == expected, "a reply has changed"
    assert all(expected[: len(members)]), "a member is missing"

    # New items set the same bits as in go-zero.
    client.execute_command("BF.ADD", FILTER, "user:new")
    go_zero_add(client, "user:new")
    assert client.execute_command("BF.EXPORT", FILTER) == client.get(STRING), "the strings differ"

    # 5. Readers use the filter. Delete the string.
    client.unlink(STRING)
    estimate = client.execute_command("BF.CARD", FILTER)
    print(f"moved: {len(members) + 1} items, {estimate} by estimate, {sum(expected[len(members):])} false positives "
          f"of {len(absent)} before and after")


if __name__ == "__main__":
    migrate(redis.Redis.from_url(sys.argv[1] if len(sys.argv) > 1 else "redis://127.0.0.1:6379"))
