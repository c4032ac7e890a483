//! The false positives of double hashing that the fill of a layer does not show.
//!
//! All probes of an item follow from a start and a step. With M bits there are at most M squared sets of probes. An
//! absent item is found if its step repeats a few positions, or if it has the step of an added item and a start near
//! that item's. In small layers and at low rates these cases outnumber those that the fill predicts: they are a floor of
//! the error rate.
//!
//! The terms are upper bounds, of up to some ten times the measured rate where they dominate. tests/measured/stats.rs
//! compares them with measured rates.

/// The factor by which the counted cases are multiplied, for rarer ones: steps in a ratio such as 2 to 1, and positions
/// that occur together in added items.
const RARER_CASES: f64 = 1.5;
/// The factor of the mean over the steps: twice for steps of both signs, and as much again, with a margin, for numbers of
/// bits with many divisors.
const WRAPPED_CASES: f64 = 5.0;
/// Fewest bits per probe for which the mean over the steps is an upper bound.
const BITS_PER_PROBE_MIN: u64 = 24;

/// Returns an upper bound of the share of absent items that are found for their step, in a layer of `size_bits` bits with
/// a share `fill` of set bits and `items` added items. `wraps` tells whether the sums of the start and the steps can
/// exceed 64 bits. O(probes).
#[must_use]
pub fn collision_rate(fill: f64, size_bits: u64, probes: u32, items: f64, wraps: bool) -> f64 {
    if fill <= 0.0 || size_bits == 0 || probes < 2 {
        return 0.0;
    }
    let of_residues = || of_residues(fill, size_bits, probes, items);
    let of_wrapped_sums = || of_wrapped_sums(fill, size_bits, probes);
    let rate = if size_bits.is_power_of_two() || !wraps {
        of_residues()
    } else if size_bits / u64::from(probes) < BITS_PER_PROBE_MIN {
        of_residues().max(of_wrapped_sums())
    } else {
        of_wrapped_sums()
    };
    rate.min(1.0)
}

/// Returns the rate if the positions depend on the residues of the start and the step only, as with a power of two. A
/// step that is a multiple of M / d has d positions, and an item with the step of an added one has its positions but for
/// those beyond one end.
fn of_residues(fill: f64, size_bits: u64, probes: u32, items: f64) -> f64 {
    let bits = size_bits as f64;
    let steps: f64 = (1..probes)
        .filter(|positions| size_bits.is_multiple_of((*positions).into()))
        .map(|positions| f64::from(totient(positions)) * libm::pow(fill, positions.into()))
        .sum();
    // The step and its negative, and a start before or after that of the item.
    let starts = if fill < 1.0 { 2.0 * (1.0 + fill) / (1.0 - fill) } else { 0.0 };
    RARER_CASES * (steps / bits + items * starts / (bits * bits))
}

/// Returns the rate if the sums wrap at 2^64, which is no multiple of M: a step then has few positions only if the sums
/// wrap at few places too. It is the mean over the steps whose multiples return after `turns` probes.
fn of_wrapped_sums(fill: f64, size_bits: u64, probes: u32) -> f64 {
    let (mut power, mut sum) = (1.0, 0.0);
    for turns in 1..probes {
        power *= fill;
        sum += f64::from(totient(turns)) * power;
    }
    let probes = f64::from(probes);
    let ln_clear = -libm::log(fill);
    let mean = if ln_clear > 0.0 { -libm::expm1(-probes * ln_clear) / (probes * ln_clear) } else { 1.0 };
    WRAPPED_CASES * sum * mean / size_bits as f64
}

/// Returns how many of the numbers 1 to `number` have no factor in common with it. O(sqrt(number)).
fn totient(number: u32) -> u32 {
    let (mut rest, mut count, mut factor) = (number, number, 2);
    while factor * factor <= rest {
        if rest.is_multiple_of(factor) {
            count -= count / factor;
            while rest.is_multiple_of(factor) {
                rest /= factor;
            }
        }
        factor += 1;
    }
    if rest > 1 { count - count / rest } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totient_counts_coprime_numbers() {
        let gcd = |mut a: u32, mut b: u32| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        for number in 1..=500 {
            assert_eq!(
                totient(number) as usize,
                (1..=number).filter(|other| gcd(*other, number) == 1).count()
            );
        }
    }

    #[test]
    fn the_rate_is_a_share_and_falls_with_the_size() {
        for (fill, probes) in [(0.0, 7), (0.3, 1), (0.5, 0)] {
            assert_eq!(collision_rate(fill, 1024, probes, 10.0, true), 0.0);
        }
        assert_eq!(collision_rate(0.5, 0, 7, 10.0, true), 0.0);
        for fill in [1e-9, 0.1, 0.5, 0.9, 1.0] {
            for probes in [2, 3, 7, 30, 2048] {
                let mut last = 1.0;
                for exponent in 3..40 {
                    let bits: u64 = 1 << exponent;
                    for size_bits in [bits, bits + 8] {
                        let rate = collision_rate(
                            fill,
                            size_bits,
                            probes,
                            fill * size_bits as f64,
                            exponent % 2 == 0,
                        );
                        assert!((0.0..=1.0).contains(&rate), "{fill} {probes} {size_bits}: {rate}");
                    }
                    let rate = collision_rate(fill, bits + 8, probes, 1.0, true);
                    assert!(exponent < 20 || rate <= last, "{fill} {probes} {bits}: {rate} {last}");
                    last = rate;
                }
                assert!(last < 1e-3, "{fill} {probes}: {last}");
            }
        }
    }
}
