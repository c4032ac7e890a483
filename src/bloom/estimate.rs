//! What the fill of an array says: how many items are in it, and how often it errs now.
//!
//! For probes that fall anywhere, independently of one another; the placements for which that is not so say
//! it themselves. Growth and merges decide by some of it, so it is computed in a way that gives the same bits on every machine.

/// Estimated number of distinct items that an array of `cells` cells has met, `set_cells` of which are set,
/// with `probes` probes per item: `ln(1 - fill) / ln(1 - q)`, where `1 - q = (1 - 1/cells)^probes` is the
/// probability that an item misses a given cell.
///
/// A full array says only that there were very many: it is taken as one with a single clear cell left. The
/// estimate has the standard deviation [`deviation`]. O(1).
#[must_use]
pub fn items_met(set_cells: u64, cells: u64, probes: u32) -> f64 {
    if cells < 2 {
        return set_cells.min(cells) as f64;
    }
    let ln_miss = f64::from(probes.max(1)) * libm::log1p(-1.0 / cells as f64);
    ln_clear(set_cells, cells) / ln_miss
}

/// Returns the standard deviation of [`items_met`] for an array to which `items` items were added:
/// `sqrt((e^t - 1 - t) * cells) / probes`, `t` being `items * probes / cells`. O(1).
#[must_use]
pub fn deviation(items: f64, cells: u64, probes: u32) -> f64 {
    let (cells, probes) = (cells.max(1) as f64, f64::from(probes.max(1)));
    let load = items * probes / cells;
    ((libm::expm1(load) - load) * cells).sqrt() / probes
}

/// The logarithm of the share of clear cells, one at least. `log1p` keeps the digits of a sparse array. O(1).
pub(super) fn ln_clear(set_cells: u64, cells: u64) -> f64 {
    let set_cells = set_cells.min(cells.saturating_sub(1));
    libm::log1p(-(set_cells as f64 / cells.max(1) as f64))
}

/// Share of set cells, 0 to 1. O(1).
#[must_use]
pub fn fill(set_cells: u64, cells: u64) -> f64 {
    if cells == 0 { 0.0 } else { set_cells.min(cells) as f64 / cells as f64 }
}

/// Returns the expected share of absent items whose probes are all set: `fill^probes`. O(1).
#[must_use]
pub fn error_rate_now(fill: f64, probes: u32) -> f64 {
    libm::pow(fill, probes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_array_has_met_nothing_and_a_full_one_very_many() {
        assert_eq!((items_met(0, 1000, 5), error_rate_now(fill(0, 1000), 5)), (0.0, 0.0));
        // (1000 / 5) ln 1000 = 1381.6, less for the exact probability of missing a cell.
        assert!((items_met(1000, 1000, 5) - 1380.86).abs() < 0.01, "{}", items_met(1000, 1000, 5));
        assert_eq!(items_met(2000, 1000, 5), items_met(999, 1000, 5));
        assert_eq!((fill(2000, 1000), fill(0, 0)), (1.0, 0.0));
        assert_eq!((items_met(1, 1, 7), items_met(0, 1, 7), items_met(3, 0, 0)), (1.0, 0.0, 0.0));
    }

    #[test]
    fn a_sparse_array_loses_no_digits() {
        let items = items_met(7, 1 << 43, 7);
        assert!((items - 1.0).abs() < 1e-9, "{items}");
    }
}
