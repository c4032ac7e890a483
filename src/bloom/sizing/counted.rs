//! How many items a layer counts of those that it meets.

/// Returns how many items a layer counts, in units of `positions / probes`, when the share `fill` of its positions is set.
///
/// The items an ideal layer meets are `-ln(1 - fill)` of these units, but it counts only those it takes for
/// new. After `t` met items it takes the share `(1 - e^-t)^probes` of the next for present already; the
/// integral of the rest is the sum of `fill^i / i` for i from 1 to `probes`, the logarithm's series cut
/// short.
pub(super) fn counted_items(fill: f64, probes: u32) -> f64 {
    let (mut sum, mut power) = (0.0, 1.0);
    for i in 1..=probes {
        power *= fill;
        sum += power / f64::from(i);
    }
    sum
}

/// Returns how many items a layer has met when it has counted `counted`, in units of `positions / probes`: the inverse of
/// [`counted_items`], as far as that has one. O(probes).
pub(super) fn met_items(counted: f64, probes: u32) -> f64 {
    // Newton's method: the count rises ever more slowly, so that no step goes too far.
    let mut met = counted;
    for _ in 0..STEPS_MAX {
        let fill = -libm::expm1(-met);
        let missing = counted - counted_items(fill, probes);
        if missing <= TOLERANCE * counted || met > MET_MAX {
            break;
        }
        met += missing / (1.0 - libm::pow(fill, f64::from(probes)));
    }
    met.min(MET_MAX)
}

/// Steps that suffice up to [`MET_MAX`].
const STEPS_MAX: u32 = 64;
/// Relative deviation at which the search ends.
const TOLERANCE: f64 = 1e-13;
/// Items from which on next to every position is set.
pub(super) const MET_MAX: f64 = 32.0;
