#!/usr/bin/env bash
# bloom-filters 3.0.4 of npm: its CuckooFilter loses items. A filter created for 20 000 items at 1 % takes all 20 000, add
# returns true for each, and has says false for every third of them. At half of its capacity some are missing already.
# Without evictions, up to a quarter of the capacity, none is. So a test with a few items passes.
#
# A good engineer would guess: false positives, never a false negative, or false from add when it is full: this is what a
# cuckoo filter is. (The other place of a fingerprint is computed by exclusive or and then a remainder, which leads back to
# the first place only if the number of buckets is a power of two. This class makes any number of them.)
#
# Who is hurt: those who believe the 0: a cache that skips the database for "certainly absent" keys, a check of revoked
# tokens. Also those who compare cuckoo filters with Bloom filters by this package.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

npm_install bloom-filters@3.0.4

node - >"$work/output" <<'J'
const { CuckooFilter } = require('bloom-filters')
for (const items of [5000, 10000, 20000]) {
  const filter = CuckooFilter.create(20000, 0.01)
  let added = 0
  for (let number = 0; number < items; number++) if (filter.add(`user:${number}`)) added++
  let missing = 0
  for (let number = 0; number < items; number++) if (!filter.has(`user:${number}`)) missing++
  const shown = missing > items / 4 ? 'over a quarter' : missing > 0 ? 'some' : 'none'
  console.log(`capacity 20000, added ${added} of ${items}: ${shown} of them missing`)
}
J
holds <<'SEEN'
capacity 20000, added 5000 of 5000: none of them missing
capacity 20000, added 10000 of 10000: some of them missing
capacity 20000, added 20000 of 20000: over a quarter of them missing
SEEN
