//! Sizes of paged layers, which confine an item to a few lines of one page. [`PageModel`] gives the error rate at a
//! load, and [`solve`] finds the load with the required error rate.
//!
//! Pages and lines are not equally loaded, and heavily loaded lines raise the error rate more than lightly loaded
//! ones lower it. So the error rate is a mixture over the loads (Putze, Sanders and Singler, "Cache-, Hash- and
//! Space-Efficient Bloom Filters", 2007, here with distinct lines in a page). The load J of a page is Poisson
//! distributed. Given J, the probability that all probes of a line are set is a sum of J-th powers, one for each
//! number of positions that may be clear.

use super::Demand;
use crate::bits::layout::{LINE_BITS, LINE_PROBES_MAX, PAGE_BITS, PAGE_LINES};
use crate::limits::PROBES_MAX;
use crate::number::truncate;

/// Returns the probes and positions of the smallest paged layer that meets the requirements.
pub(super) fn solve(demand: &Demand) -> (u32, u64) {
    let candidates = demand.probe_candidates(PROBES_MAX.min(u32::from(demand.lines) * LINE_PROBES_MAX));
    let first = most_promising(demand, candidates.clone());
    let (mut load, mut probes) = (0.0, 1);
    for candidate in first.into_iter().chain(candidates.filter(|other| Some(*other) != first)) {
        if is_worse(load, demand, candidate) {
            continue;
        }
        let counted = counted_load(demand, candidate);
        // Among equally good numbers, the fewest probes win.
        if counted > load || (counted == load && candidate < probes) {
            (load, probes) = (counted, candidate);
        }
    }
    let pages = truncate(libm::ceil(demand.items / load)).max(1);
    (probes, pages.saturating_mul(PAGE_BITS))
}

fn model(demand: &Demand, probes: u32) -> PageModel {
    PageModel::new(probes, demand.lines)
}

/// Returns the number of probes whose error rate at about the final load is lowest in proportion to the rate that
/// [`model_rate`] permits. This is mostly the best number of all. If so, one evaluation rules out each of the others.
fn most_promising(demand: &Demand, candidates: impl Iterator<Item = u32> + Clone) -> Option<u32> {
    let load = array_load(demand.rate, candidates.clone().max()?);
    let share = |probes| model(demand, probes).error_rate(load) / model_rate(demand, probes);
    candidates
        .map(|probes| (share(probes), probes))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, probes)| probes)
}

/// Returns whether a layer with `probes` probes certainly exceeds its rate when it has counted `load` items per page.
/// Such a layer has at least `load` added items per page, so one evaluation of the rate is enough. To find the load
/// exactly takes about fifteen.
fn is_worse(load: f64, demand: &Demand, probes: u32) -> bool {
    // Much more than the rounding of either rate.
    const MARGIN: f64 = 1.0 + 1e-6;
    load > 0.0 && model(demand, probes).error_rate(load) > model_rate(demand, probes) * MARGIN
}

/// Returns the error rate of the model at which a real layer keeps the required rate; see [`PROGRESSION`].
fn model_rate(demand: &Demand, probes: u32) -> f64 {
    demand.rate * (1.0 - libm::pow(f64::from(probes) / PROGRESSION, 3.0))
}

/// Returns the items per [`PAGE_BITS`] bits at which a layer without pages reaches `rate`.
fn array_load(rate: f64, probes: u32) -> f64 {
    let k = f64::from(probes);
    let fill = libm::exp(libm::log(rate) / k);
    -libm::log1p(-fill) * PAGE_BITS as f64 / k
}

/// Returns the added items per page at which a layer reaches its rate.
fn load_at(demand: &Demand, probes: u32) -> f64 {
    let (k, rate) = (f64::from(probes), model_rate(demand, probes));
    let fill = libm::exp(libm::log(rate) / k);
    let error_rate = |load| model(demand, probes).error_rate(load);
    // A paged layer takes a few percent fewer items than this.
    let ideal = array_load(rate, probes);
    let (mut load, mut excess) = (ideal, libm::log(error_rate(ideal) / rate));
    // d ln rate / d ln load of the layer without pages.
    let mut slope = -k * (1.0 - fill) * libm::log1p(-fill) / fill;
    // Secant steps in logarithms, where the rate is almost a power of the load.
    for _ in 0..STEPS_MAX {
        let step = -excess / slope;
        load *= libm::exp(step);
        let next = libm::log(error_rate(load) / rate);
        if next.abs() < TOLERANCE {
            break;
        }
        slope = (next - excess) / step;
        excess = next;
    }
    load
}

/// Returns the counted items per page at which a layer reaches its rate: the added ones without the false positives.
fn counted_load(demand: &Demand, probes: u32) -> f64 {
    let load = load_at(demand, probes);
    let model = model(demand, probes);
    load * (1.0 - mean_rate(|part| model.error_rate(load * part)))
}

/// Returns the mean of `rate_at` over its argument from 0 to 1: a share of the items.
pub(super) fn mean_rate(rate_at: impl Fn(f64) -> f64) -> f64 {
    let shares = GAUSS_LEGENDRE.iter().map(|(node, weight)| {
        let (before, after) = ((1.0 - node) / 2.0, (1.0 + node) / 2.0);
        weight / 2.0 * (rate_at(before) + rate_at(after))
    });
    shares.sum()
}

/// Nodes and weights of the integral from -1 to 1, each node with both signs (Abramowitz and Stegun, table 25.4, n =
/// 8).
const GAUSS_LEGENDRE: [(f64, f64); 4] = [
    (0.183_434_642_495_650, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887),
    (0.796_666_477_413_627, 0.222_381_034_453_374),
    (0.960_289_856_497_536, 0.101_228_536_290_376),
];

/// The number of probes at which the allowance for the model's error would be the whole rate. The allowance is the
/// share `(probes / PROGRESSION)^3` of the rate.
///
/// The model assumes that the loads of an item's lines are independent. The lines are an arithmetic progression with an
/// odd step. With 1, 2, 4 or 8 lines, two lines of a page share as many items as independent ones. With other numbers
/// they share fewer, which lowers the rate by up to 0.4 %. With eight lines and many probes the measured rate is above
/// that of the model: by 1.0 +- 0.3 % at 39 probes and 1.7 +- 0.5 % at 48 (200 and 400 layers of 2 MiB). The allowance
/// is 1.4 % and 2.7 % there, and 0.01 % at 7 probes.
const PROGRESSION: f64 = 160.0;

/// Secant steps that suffice for every rate and number of lines; four suffice for most.
const STEPS_MAX: u32 = 12;
/// Relative deviation from the required rate at which the search ends.
const TOLERANCE: f64 = 1e-11;

/// How the probes of an item of a paged layer are split over its lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageModel {
    lines: u32,
    per_line: u32,
    lines_with_one_more: u32,
}

impl PageModel {
    /// Returns the model of `probes` probes in `lines` lines, at least one.
    pub(super) fn new(probes: u32, lines: u8) -> Self {
        let lines = u32::from(lines.max(1));
        Self { lines, per_line: probes / lines, lines_with_one_more: probes % lines }
    }

    /// Returns the error rate with an average of `load` added items per page, for many pages.
    pub(super) fn error_rate(self, load: f64) -> f64 {
        let deviation = load.sqrt() * STEP;
        let start = load - deviation * f64::from(POINTS_BELOW);
        let mut walk = Walk::new(self, start, deviation);
        let (mut rate, mut weights) = (0.0, 0.0);
        for point in 0..POINTS {
            let weight = poisson_weight(start + deviation * f64::from(point), load);
            rate += weight * walk.error_rate();
            weights += weight;
            walk.step();
        }
        rate / weights
    }

    /// Returns the [`error_rate`](Self::error_rate) at a light load, at most about 200: the sum over every number of
    /// items of a page.
    pub(super) fn light_error_rate(self, load: f64) -> f64 {
        let mut walk = Walk::new(self, 0.0, 1.0);
        let (mut rate, mut weight) = (0.0, libm::exp(-load));
        for items in 1..=LIGHT_ITEMS_MAX {
            rate += weight * walk.error_rate();
            weight *= load / f64::from(items);
            walk.step();
        }
        rate
    }

    /// Returns the probability that an item of a page sets a given position of the page.
    pub(super) fn hit_rate(self) -> f64 {
        self.lines_hitting(1.0 - 1.0 / LINE_BITS as f64) / PAGE_LINES as f64
    }

    /// Returns the expected number of lines of an item in which at least one probe is outside the share `missing` of
    /// the line's positions.
    fn lines_hitting(self, missing: f64) -> f64 {
        let hitting = |probes: u32, lines: u32| f64::from(lines) * (1.0 - power_of(missing, probes));
        hitting(self.per_line, self.lines - self.lines_with_one_more)
            + hitting(self.per_line + 1, self.lines_with_one_more)
    }

    /// Returns the logarithm of a share: of the items of a page, those that have no probe in `clear` positions of one line.
    fn ln_missing(self, clear: usize) -> f64 {
        let hit = self.lines_hitting(1.0 - clear as f64 / LINE_BITS as f64);
        libm::log1p(-hit / PAGE_LINES as f64)
    }
}

/// The probability that all probes of a line are set, for equally spaced numbers of items of its page.
struct LineWalk {
    coefficients: &'static [f64; TERMS],
    /// For each number of given positions of the line: the probability that all items of the page miss them, which is
    /// the share of items that miss them to the power of the number of items.
    powers: [Geometric; TERMS],
}

impl LineWalk {
    fn new(model: PageModel, probes: u32, start: f64, distance: f64) -> Self {
        let mut powers = [Geometric { value: 1.0, ratio: 1.0 }; TERMS];
        for (clear, power) in powers.iter_mut().enumerate().skip(1) {
            let ln_base = model.ln_missing(clear);
            *power = Geometric { value: libm::exp(ln_base * start), ratio: libm::exp(ln_base * distance) };
        }
        Self { coefficients: MOMENT_COEFFICIENTS.get(probes as usize).unwrap_or(&[0.0; TERMS]), powers }
    }

    /// Returns the probability, at least 0: in a nearly empty page, rounding may make the differences of the terms
    /// negative.
    fn probability(&self) -> f64 {
        let terms = self.coefficients.iter().zip(&self.powers);
        terms.map(|(coefficient, power)| coefficient * power.value).sum::<f64>().max(0.0)
    }

    fn step(&mut self) {
        for power in &mut self.powers {
            power.value *= power.ratio;
        }
    }
}

/// The error rate of a page for equally spaced numbers of its items.
struct Walk {
    model: PageModel,
    line: LineWalk,
    line_with_one_more: LineWalk,
}

impl Walk {
    /// Returns a walk that begins at `start` items and adds `distance` with each step.
    fn new(model: PageModel, start: f64, distance: f64) -> Self {
        let line = |probes| LineWalk::new(model, probes, start, distance);
        Self { model, line: line(model.per_line), line_with_one_more: line(model.per_line + 1) }
    }

    /// Returns the error rate of a page with the current number of items.
    fn error_rate(&self) -> f64 {
        let PageModel { lines, lines_with_one_more, .. } = self.model;
        power_of(self.line.probability(), lines - lines_with_one_more)
            * power_of(self.line_with_one_more.probability(), lines_with_one_more)
    }

    fn step(&mut self) {
        self.line.step();
        self.line_with_one_more.step();
    }
}

/// Largest number of items of a page in the sum of [`PageModel::light_error_rate`]: 40 standard deviations above a
/// load of 128. Much lower loads need that margin, because heavy pages matter most.
const LIGHT_ITEMS_MAX: u32 = 580;

/// Distance of quadrature points in standard deviations. The trapezoid rule on a smooth bell curve converges faster
/// than any power of it: 3/4 leaves an error of about e^-35.
const STEP: f64 = 0.75;
/// Points below the mean: 7.5 standard deviations.
const POINTS_BELOW: u32 = 10;
/// The number of points. They reach 10.5 standard deviations above the mean: at the lowest rates the pages that matter
/// most are 2 standard deviations above it.
const POINTS: u32 = 25;

/// A power whose exponent grows in equal steps.
#[derive(Clone, Copy)]
struct Geometric {
    value: f64,
    ratio: f64,
}

/// Returns the Poisson probability of `count`, which need not be an integer, up to a factor that is the same for all
/// counts (Stirling's series; the next term is below 1e-9 from 100 on). It is 0 below 1, because a page without items
/// has no false positives.
fn poisson_weight(count: f64, mean: f64) -> f64 {
    if count < 1.0 {
        return 0.0;
    }
    libm::exp(count - mean - count * libm::log(count / mean) - 1.0 / (12.0 * count)) / count.sqrt()
}

/// Returns `base` to a small integer power.
fn power_of(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// Number of terms: 0 to [`LINE_PROBES_MAX`] positions of a line may be clear.
const TERMS: usize = LINE_PROBES_MAX as usize + 1;

/// For each number of probes of a line: `c_j` with `E[fill^q] = sum c_j G(1 - j/512)`, the probability that `q`
/// positions, which may coincide, are all set. G is the generating function of the number of probes in the line.
static MOMENT_COEFFICIENTS: [[f64; TERMS]; TERMS] = all_moment_coefficients();

/// Returns the coefficients. The probability that `q` positions are `i` distinct ones is that of an occupancy. By
/// inclusion and exclusion, `i` given positions are all set after t probes with probability `sum (-1)^j binomial(i,
/// j) (1 - j/512)^t`.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, to which a wrong index is an error")]
const fn all_moment_coefficients() -> [[f64; TERMS]; TERMS] {
    let mut all = [[0.0; TERMS]; TERMS];
    let mut distinct = [0.0; TERMS];
    distinct[0] = 1.0;
    let mut q = 0;
    while q < TERMS {
        let mut i = 0;
        while i <= q {
            let mut j = 0;
            while j <= i {
                all[q][j] += distinct[i] * SIGNED_BINOMIALS[i][j];
                j += 1;
            }
            i += 1;
        }
        // One more probe is at a set position or at a clear one.
        let mut i = TERMS - 1;
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

/// `(-1)^j binomial(i, j)`, by i and j.
static SIGNED_BINOMIALS: [[f64; TERMS]; TERMS] = signed_binomials();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, to which a wrong index is an error")]
const fn signed_binomials() -> [[f64; TERMS]; TERMS] {
    let mut all = [[0.0; TERMS]; TERMS];
    let mut i = 0;
    while i < TERMS {
        let (mut j, mut signed_binomial) = (0, 1.0);
        while j <= i {
            all[i][j] = signed_binomial;
            signed_binomial *= -((i - j) as f64) / (j + 1) as f64;
            j += 1;
        }
        i += 1;
    }
    all
}
