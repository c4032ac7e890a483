#!/usr/bin/env bash
# pyprobables 0.7.0: a CuckooFilter (or CountingCuckooFilter) made by init_error_rate(0.01) with 10 000 buckets of 4 finds
# every absent item after 10 000 adds, at a quarter of its slots. The adds raise nothing, error_rate stays 0.01, and the load
# factor says 2.6 %. After 1024 of the items are removed, none of the other 8976 is found.
#
# A good engineer would guess: at most 1 % false positives until the filter is full, and no false negatives as long as only
# added items are removed. (Both places of an item follow from its fingerprint alone, of 10 bits for 1 %. So there are 1024
# distinct items, and add leaves out one that it takes for present.)
#
# Who is hurt: those who set the rate that they need. The constructor without a rate takes fingerprints of 32 bits, so a
# first test with it shows nothing. Those who remove an item lose all that were taken for the same one.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

pip_install pyprobables==0.7.0

python - >"$work/output" <<'P'
from probables import CountingCuckooFilter, CuckooFilter

members = [f"user:{number}" for number in range(10_000)]
absent = [f"user:{number}" for number in range(10_000, 30_000)]


def show(name, filter):
    for member in members:
        filter.add(member)
    found = sum(map(bool, map(filter.check, absent))) / len(absent)
    print(f"{name}, rate {filter.error_rate:.1g}, load {filter.load_factor():.1%}: {found:.0%} of absent items found")


filter = CuckooFilter.init_error_rate(0.01, capacity=10_000)
show("CuckooFilter", filter)
show("CountingCuckooFilter", CountingCuckooFilter.init_error_rate(0.01, capacity=10_000))
show("CuckooFilter", CuckooFilter.init_error_rate(0.001, capacity=10_000))
show("CuckooFilter without a rate", CuckooFilter(capacity=10_000))

removed = [member for member in members if filter.remove(member)]
kept = set(members) - set(removed)
print(f"removed {len(removed)} items, found {sum(map(filter.check, kept))} of the other {len(kept)}")
P
holds <<'SEEN'
CuckooFilter, rate 0.01, load 2.6%: 100% of absent items found
CountingCuckooFilter, rate 0.01, load 2.6%: 100% of absent items found
CuckooFilter, rate 0.001, load 14.5%: 71% of absent items found
CuckooFilter without a rate, rate 2e-09, load 25.0%: 0% of absent items found
removed 1024 items, found 0 of the other 8976
SEEN
