//! The error rate of a paged layer at a load.
//!
//! Pages and lines are not equally loaded, and a heavily loaded line errs more than a lightly loaded one
//! saves. The error rate is therefore a mixture over the loads (Putze, Sanders and Singler, "Cache-, Hash-
//! and Space-Efficient Bloom Filters", 2007, here with distinct lines in a page): the load J of a page is
//! Poisson; given J, the throws into a line are a sum of J independent terms, so their generating function is
//! a J-th power and the moments of the line's fill are sums of such powers.

use crate::bloom::everbloom::layout::{LINE_BITS, LINE_PROBES_MAX, PAGE_LINES};

/// The error rate when on average `load` items have met each of many pages.
pub(super) fn error_rate(load: f64, probes: u32, lines: u8) -> f64 {
    let deviation = load.sqrt() * STEP;
    let start = load - deviation * f64::from(POINTS_BELOW);
    let mut walk = Walk::new(probes, lines, start, deviation);
    let (mut rate, mut weights) = (0.0, 0.0);
    for point in 0..POINTS {
        let weight = poisson_weight(start + deviation * f64::from(point), load);
        rate += weight * walk.error_rate();
        weights += weight;
        walk.step();
    }
    rate / weights
}

/// As [`error_rate`] for a light load, at most some 200: the sum over every number of items that a page may
/// have met.
pub(super) fn light_error_rate(load: f64, probes: u32, lines: u8) -> f64 {
    let mut walk = Walk::new(probes, lines, 0.0, 1.0);
    let (mut rate, mut weight) = (0.0, libm::exp(-load));
    for items in 1..=LIGHT_ITEMS_MAX {
        // With hardly an item in the page the moments are differences that rounding may take below zero.
        rate += weight * walk.error_rate().max(0.0);
        weight *= load / f64::from(items);
        walk.step();
    }
    rate
}

/// Probability that an item of a page sets a given bit of it.
pub(super) fn bit_hit_rate(probes: u32, lines: u8) -> f64 {
    Deal::of(probes, lines).lines_hitting(1.0 - 1.0 / LINE_BITS as f64) / PAGE_LINES as f64
}

/// How the probes of an item are dealt out to its lines.
#[derive(Clone, Copy)]
struct Deal {
    few: u32,
    lines_with_few: u32,
    lines_with_more: u32,
}

impl Deal {
    fn of(probes: u32, lines: u8) -> Self {
        let lines = u32::from(lines.max(1));
        let (few, lines_with_more) = (probes / lines, probes % lines);
        Self { few, lines_with_few: lines - lines_with_more, lines_with_more }
    }

    /// Expected lines of an item of which a probe falls outside the share `missing` of the line.
    fn lines_hitting(self, missing: f64) -> f64 {
        let hitting = |probes: u32, lines: u32| f64::from(lines) * (1.0 - power_of(missing, probes));
        hitting(self.few, self.lines_with_few) + hitting(self.few + 1, self.lines_with_more)
    }
}

/// The error rate of a page along equidistant numbers of items that it has met.
struct Walk {
    deal: Deal,
    few_moment: &'static [f64; MOMENTS],
    more_moment: &'static [f64; MOMENTS],
    /// Powers of the generating function at 1 - i/512: e^(ln_base * J).
    powers: [Geometric; MOMENTS],
}

impl Walk {
    /// From `start` items, `distance` more with each step.
    fn new(probes: u32, lines: u8, start: f64, distance: f64) -> Self {
        let deal = Deal::of(probes, lines);
        let mut powers = [Geometric { value: 1.0, ratio: 1.0 }; MOMENTS];
        for (i, power) in powers.iter_mut().enumerate().skip(1) {
            let hit = deal.lines_hitting(1.0 - i as f64 / LINE_BITS as f64);
            let ln_base = libm::log1p(-hit / PAGE_LINES as f64);
            *power = Geometric { value: libm::exp(ln_base * start), ratio: libm::exp(ln_base * distance) };
        }
        let (few_moment, more_moment) = (moment_coefficients(deal.few), moment_coefficients(deal.few + 1));
        Self { deal, few_moment, more_moment, powers }
    }

    /// The error rate of a page that has met so many items.
    fn error_rate(&self) -> f64 {
        let moment = |coefficients: &[f64; MOMENTS]| -> f64 {
            coefficients.iter().zip(&self.powers).map(|(coefficient, power)| coefficient * power.value).sum()
        };
        power_of(moment(self.few_moment), self.deal.lines_with_few)
            * power_of(moment(self.more_moment), self.deal.lines_with_more)
    }

    fn step(&mut self) {
        for power in &mut self.powers {
            power.value *= power.ratio;
        }
    }
}

/// Items of a page up to which [`light_error_rate`] sums: 40 standard deviations above a load of 128, so
/// that at a far lower one the heavy pages that matter most are among them.
const LIGHT_ITEMS_MAX: u32 = 580;

/// Distance of quadrature points in standard deviations. The trapezoid rule on a smooth bell converges faster
/// than any power of it: 3/4 leaves an error of about e^-35.
const STEP: f64 = 0.75;
/// Points below the mean: 7.5 standard deviations.
const POINTS_BELOW: u32 = 10;
/// All points. They reach 10.5 standard deviations above the mean, since at the lowest rates the pages that
/// matter most lie 2 above it.
const POINTS: u32 = 25;

/// The walk of a power along equidistant exponents.
#[derive(Clone, Copy)]
struct Geometric {
    value: f64,
    ratio: f64,
}

/// The Poisson probability of `count`, which need not be whole, up to a factor that is the same for all
/// counts (Stirling's series; the next term is below 1e-9 from 100 on). Below 1, where a lightly loaded page
/// has no items and no false positives, it is 0.
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

/// Coefficients `c_j` with `E[fill^q] = sum c_j G(1 - j/512)`, G being the generating function of the throws
/// into the line: `q` positions, which may coincide, are all occupied.
fn moment_coefficients(q: u32) -> &'static [f64; MOMENTS] {
    MOMENT_COEFFICIENTS.get(q as usize).unwrap_or(&[0.0; MOMENTS])
}

/// By q, computed once by the compiler.
static MOMENT_COEFFICIENTS: [[f64; MOMENTS]; MOMENTS] = all_moment_coefficients();

/// `q` positions are i distinct ones with the probability of an occupancy; by inclusion and exclusion i given
/// bits are all occupied after t throws with the sum of `(-1)^j binomial(i, j) (1 - j/512)^t`.
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
