//! Sizes of layers that confine an item to a few lines of one page.
//!
//! Pages and lines are not equally loaded, and a heavily loaded line errs more than a lightly loaded one saves. The
//! error rate is therefore a mixture over the loads (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient
//! Bloom Filters", 2007, here with distinct lines in a page): the load J of a page is Poisson; given J, the throws
//! into a line are a sum of J independent terms, so their generating function is a J-th power and the moments of
//! the line's fill are sums of such powers.

use super::super::layout::{LINE_BITS, LINE_PROBES_MAX, LINES_MAX, Layout, PAGE_BITS, PAGE_LINES};
use super::{Size, probe_candidates, truncate};
use crate::bloom::limits::PROBES_MAX;

/// Lines per item by error rate: the fewest with which the layer is at most some 1.2 % larger than a scattered one,
/// down to 5e-7; below, an item has so many probes that one more line is a small price.
const LINES_BY_RATE: [(f64, u8); 7] =
    [(0.05, 1), (3.5e-3, 2), (5e-4, 3), (5e-5, 4), (5e-6, 5), (5e-7, 6), (1e-7, 7)];

/// The smallest paged layer for `items` at `rate`.
pub(super) fn solve(items: u64, rate: f64) -> Size {
    let lines = LINES_BY_RATE.iter().find(|(from, _)| rate >= *from).map_or(LINES_MAX, |(_, lines)| *lines);
    let candidates = probe_candidates(rate, PROBES_MAX.min(u32::from(lines) * LINE_PROBES_MAX));
    let first = most_promising(rate, candidates.clone(), lines);
    let (mut load, mut probes) = (0.0, 1);
    for candidate in first.into_iter().chain(candidates.filter(|other| Some(*other) != first)) {
        if is_worse(load, rate, candidate, lines) {
            continue;
        }
        let counted = counted_load(load_at(rate, candidate, lines), candidate, lines);
        // Of equals the fewest probes.
        if counted > load || (counted == load && candidate < probes) {
            (load, probes) = (counted, candidate);
        }
    }
    let pages = truncate(libm::ceil(items as f64 / load)).max(1);
    Size { layout: Layout::Paged { lines }, probes, size_bits: pages.saturating_mul(PAGE_BITS) }
}

/// The number of probes that has the lowest rate, as a share of what it may have, at about the load that is looked for.
/// Mostly the best one, and then a single look tells of each other that it is not.
fn most_promising(rate: f64, candidates: impl Iterator<Item = u32> + Clone, lines: u8) -> Option<u32> {
    let load = array_load(rate, candidates.clone().max()?);
    let share = |probes| error_rate(load, probes, lines) / model_rate(rate, probes);
    candidates
        .map(|probes| (share(probes), probes))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, probes)| probes)
}

/// Whether a layer with so many probes has certainly passed `rate` when it has counted `load` items per page. It has met
/// no fewer than it has counted, so this takes one look at the rate, in place of some fifteen to find the load exactly.
fn is_worse(load: f64, rate: f64, probes: u32, lines: u8) -> bool {
    // Far more than what rounding does to either rate.
    const MARGIN: f64 = 1.0 + 1e-6;
    load > 0.0 && error_rate(load, probes, lines) > model_rate(rate, probes) * MARGIN
}

/// The rate that the model must show for a layer to keep `rate`; see [`PROGRESSION`].
fn model_rate(rate: f64, probes: u32) -> f64 {
    rate * (1.0 - libm::pow(f64::from(probes) / PROGRESSION, 3.0))
}

/// Items per page of an array without pages when it reaches `rate`.
fn array_load(rate: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    let fill = libm::exp(libm::log(rate) / k);
    -libm::log1p(-fill) * PAGE_BITS as f64 / k
}

/// Items that each of many pages has met on average when the layer reaches `rate`.
fn load_at(rate: f64, probes: u32, lines: u8) -> f64 {
    let (k, rate) = (f64::from(probes), model_rate(rate, probes));
    let fill = libm::exp(libm::log(rate) / k);
    // The paged array takes a few per cent less than this.
    let ideal = array_load(rate, probes);
    let (mut load, mut excess) = (ideal, libm::log(error_rate(ideal, probes, lines) / rate));
    // d ln rate / d ln load of the array without pages.
    let mut slope = -k * (1.0 - fill) * libm::log1p(-fill) / fill;
    // Secant steps in logarithms, in which the rate is almost a power of the load.
    for _ in 0..STEPS_MAX {
        let step = -excess / slope;
        load *= libm::exp(step);
        let next = libm::log(error_rate(load, probes, lines) / rate);
        if next.abs() < TOLERANCE {
            break;
        }
        slope = (next - excess) / step;
        excess = next;
    }
    load
}

/// The items a layer counts per page when `load` items per page have met it: all but the false positives among them.
fn counted_load(load: f64, probes: u32, lines: u8) -> f64 {
    let share = GAUSS_LEGENDRE.iter().map(|(node, weight)| {
        let (before, after) = ((1.0 - node) / 2.0, (1.0 + node) / 2.0);
        weight / 2.0 * (error_rate(load * before, probes, lines) + error_rate(load * after, probes, lines))
    });
    load * (1.0 - share.sum::<f64>())
}

/// Nodes and weights of the integral from -1 to 1, to be taken with both signs (Abramowitz and Stegun, table 25.4,
/// n = 8).
const GAUSS_LEGENDRE: [(f64, f64); 4] = [
    (0.183_434_642_495_650, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887),
    (0.796_666_477_413_627, 0.222_381_034_453_374),
    (0.960_289_856_497_536, 0.101_228_536_290_376),
];

/// The model takes the loads of an item's lines for independent. The lines are an arithmetic progression with an odd
/// step, so two lines of a page share as many items as independent ones if an item has 1, 2, 4 or 8 lines, and fewer
/// with other numbers, which is a reserve of up to 0.4 % of the rate. With eight lines and many probes the rate was
/// found above the model's, by 1.0 +- 0.3 % at 39 probes and 1.7 +- 0.5 % at 48 (200 and 400 layers of 2 MiB). This
/// allowance grows with the cube of the probes: 1.4 % and 2.7 % there, 0.01 % at 7 probes.
const PROGRESSION: f64 = 160.0;

/// Secant steps that suffice at every rate and number of lines; four are taken as a rule.
const STEPS_MAX: u32 = 12;
/// Relative deviation from the asked rate at which the search ends.
const TOLERANCE: f64 = 1e-11;

/// The error rate when on average `load` items have met each of many pages.
fn error_rate(load: f64, probes: u32, lines: u8) -> f64 {
    let lines = u32::from(lines);
    let (few, lines_with_more) = (probes / lines, probes % lines);
    let lines_with_few = lines - lines_with_more;
    let few_moment = moment_coefficients(few);
    let more_moment = moment_coefficients(few + 1);

    // Powers of the generating function at 1 - i/512: e^(ln_base * J), walked along the quadrature points.
    let deviation = load.sqrt() * STEP;
    let start = load - deviation * f64::from(POINTS_BELOW);
    let mut powers = [Geometric { value: 1.0, ratio: 1.0 }; MOMENTS];
    for (i, power) in powers.iter_mut().enumerate().skip(1) {
        let clear = 1.0 - i as f64 / LINE_BITS as f64;
        let missed = |probes: u32, lines: u32| f64::from(lines) * (1.0 - power_of(clear, probes));
        let hit = missed(few, lines_with_few) + missed(few + 1, lines_with_more);
        let ln_base = libm::log1p(-hit / PAGE_LINES as f64);
        *power = Geometric { value: libm::exp(ln_base * start), ratio: libm::exp(ln_base * deviation) };
    }

    let (mut rate, mut weights) = (0.0, 0.0);
    for point in 0..POINTS {
        let page_load = start + deviation * f64::from(point);
        let moment = |coefficients: &[f64; MOMENTS]| -> f64 {
            coefficients.iter().zip(&powers).map(|(coefficient, power)| coefficient * power.value).sum()
        };
        let given_load =
            power_of(moment(few_moment), lines_with_few) * power_of(moment(more_moment), lines_with_more);
        let weight = poisson_weight(page_load, load);
        rate += weight * given_load;
        weights += weight;
        for power in &mut powers {
            power.value *= power.ratio;
        }
    }
    rate / weights
}

/// Distance of quadrature points in standard deviations. The trapezoid rule on a smooth bell converges faster than
/// any power of it: 3/4 leaves an error of about e^-35.
const STEP: f64 = 0.75;
/// Points below the mean: 7.5 standard deviations.
const POINTS_BELOW: u32 = 10;
/// All points. They reach 10.5 standard deviations above the mean, since at the lowest rates the pages that matter
/// most lie 2 above it.
const POINTS: u32 = 25;

/// The walk of a power along equidistant exponents.
#[derive(Clone, Copy)]
struct Geometric {
    value: f64,
    ratio: f64,
}

/// The Poisson probability of `count`, which need not be whole, up to a factor that is the same for all counts
/// (Stirling's series; the next term is below 1e-9 from 100 on). Below 1, where a lightly loaded page has no items and
/// no false positives, it is 0.
fn poisson_weight(count: f64, mean: f64) -> f64 {
    if count < 1.0 {
        return 0.0;
    }
    libm::exp(count - mean - count * libm::log(count / mean) - 1.0 / (12.0 * count)) / count.sqrt()
}

/// `base` to a small whole power.
fn power_of(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// Moments of a line's fill, from the 0th on.
const MOMENTS: usize = LINE_PROBES_MAX as usize + 1;

/// Coefficients `c_j` with `E[fill^q] = sum c_j G(1 - j/512)`, G being the generating function of the throws into the
/// line: `q` positions, which may coincide, are all occupied.
fn moment_coefficients(q: u32) -> &'static [f64; MOMENTS] {
    MOMENT_COEFFICIENTS.get(q as usize).unwrap_or(&[0.0; MOMENTS])
}

/// By q, computed once by the compiler.
static MOMENT_COEFFICIENTS: [[f64; MOMENTS]; MOMENTS] = all_moment_coefficients();

/// `q` positions are i distinct ones with the probability of an occupancy; by inclusion and exclusion i given bits
/// are all occupied after t throws with the sum of `(-1)^j binomial(i, j) (1 - j/512)^t`.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, to which a wrong index is an error")]
const fn all_moment_coefficients() -> [[f64; MOMENTS]; MOMENTS] {
    let mut all = [[0.0; MOMENTS]; MOMENTS];
    let mut distinct = [0.0; MOMENTS];
    distinct[0] = 1.0;
    let mut q = 0;
    while q < MOMENTS {
        let mut i = 0;
        while i <= q {
            let mut signed_binomial = 1.0;
            let mut j = 0;
            while j <= i {
                all[q][j] += distinct[i] * signed_binomial;
                signed_binomial *= -((i - j) as f64) / (j + 1) as f64;
                j += 1;
            }
            i += 1;
        }
        // One more throw: it hits an occupied bit or a clear one.
        let mut i = MOMENTS - 1;
        while i > 0 {
            let stay = i as f64 / LINE_BITS as f64;
            let rise = 1.0 - (i - 1) as f64 / LINE_BITS as f64;
            distinct[i] = distinct[i] * stay + distinct[i - 1] * rise;
            i -= 1;
        }
        distinct[0] = 0.0;
        q += 1;
    }
    all
}
