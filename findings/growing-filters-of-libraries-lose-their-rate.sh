#!/usr/bin/env bash
# Filters of client libraries that grow: pyprobables 0.7.0 (ExpandingBloomFilter), pybloom-live 4.0.0 (ScalableBloomFilter)
# and bloom-filters 3.0.4 of npm (ScalableBloomFilter). They take an error rate and do not keep it. Begun for 100 items and
# filled with 20 000, pyprobables finds two thirds of all absent items at 1 %. Each of its filters gets the whole rate and
# 100 items, so the rates add up. pybloom-live begins at 0.9 of the rate and multiplies by 0.9 for each filter: a sum of up
# to nine times the rate. In bloom-filters, the rate that was measured at 0.01 % is tens of times as high, and rate(), which
# looks at the newest filter only, says less than 1e-9.
#
# A good engineer would guess: the rate holds for the whole filter, as in the paper on scalable Bloom filters that two of
# them name, whose rates sum up to the one that was asked for.
#
# Who is hurt: those who do not know their number of items, and chose a growing filter for this reason.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

pip_install pyprobables==0.7.0 pybloom-live==4.0.0
npm_install bloom-filters@3.0.4

{
  python - <<'P'
from probables import ExpandingBloomFilter
from pybloom_live import ScalableBloomFilter

members = [f"user:{number}" for number in range(20_000)]
absent = [f"user:{number}" for number in range(20_000, 60_000)]


def show(name, rate, is_found):
    measured = sum(map(is_found, absent)) / len(absent)
    bound = max(bound for bound in (1, 2, 10, 50) if measured >= bound * rate)
    print(f"{name} at {rate}: at least {bound} times as many false positives")


for rate in 0.01, 0.0001:
    expanding = ExpandingBloomFilter(est_elements=100, false_positive_rate=rate)
    scalable = ScalableBloomFilter(initial_capacity=100, error_rate=rate)
    for member in members:
        expanding.add(member)
        scalable.add(member)
    show("pyprobables", rate, expanding.check)
    show("pybloom-live", rate, lambda item: item in scalable)
P
  node - <<'J'
const { ScalableBloomFilter } = require('bloom-filters')
const filter = ScalableBloomFilter.create(100, 0.0001)
for (let number = 0; number < 20000; number++) filter.add(`user:${number}`)
let found = 0
for (let number = 20000; number < 40000; number++) if (filter.has(`user:${number}`)) found++
const bound = Math.max(...[1, 2, 10, 50].filter(bound => found / 20000 >= bound * 0.0001))
console.log(`bloom-filters at 0.0001: at least ${bound} times as many false positives, rate() below 1e-9: ${filter.rate() < 1e-9}`)
J
} >"$work/output"
holds <<'SEEN'
pyprobables at 0.01: at least 50 times as many false positives
pybloom-live at 0.01: at least 2 times as many false positives
pyprobables at 0.0001: at least 50 times as many false positives
pybloom-live at 0.0001: at least 2 times as many false positives
bloom-filters at 0.0001: at least 50 times as many false positives, rate() below 1e-9: true
SEEN
