//! Collects the samples of one quantity and computes their statistics.

/// Values of one quantity, one per round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Adds the value of one more round.
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns the median; NaN if there is no value.
    pub(crate) fn median(&self) -> f64 {
        median(self.0.clone())
    }

    /// Returns the least and the greatest value.
    pub(crate) fn range(&self) -> [f64; 2] {
        [self.0.iter().copied().fold(f64::NAN, f64::min), self.0.iter().copied().fold(f64::NAN, f64::max)]
    }

    /// Returns the median distance from the median, the typical deviation of a round.
    pub(crate) fn deviation(&self) -> f64 {
        let median = self.median();
        self::median(self.0.iter().map(|value| (value - median).abs()).collect())
    }

    /// Returns a median of ratios: in each round, the value divided by the value of `base`.
    pub(crate) fn ratio(&self, base: &Self) -> f64 {
        median(self.0.iter().zip(&base.0).map(|(value, base)| value / base).collect())
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let pair = (values.get(middle), values.get(middle.wrapping_sub(1)));
    match pair {
        (Some(high), Some(low)) if values.len().is_multiple_of(2) => f64::midpoint(*high, *low),
        (Some(value), _) => *value,
        (None, _) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn samples_have_a_median_a_range_and_a_deviation() {
        use super::*;
        let samples: Samples = [5.0, 1.0, 9.0, 4.0].into_iter().collect();
        assert_eq!((samples.median(), samples.deviation()), (4.5, 2.0));
        assert_eq!(samples.range(), [1.0, 9.0]);
        assert_eq!(Samples::from_iter([3.0]).median(), 3.0);
        assert!(Samples::default().median().is_nan());
        let base: Samples = [10.0, 1.0, 3.0, 4.0].into_iter().collect();
        assert_eq!(samples.ratio(&base), 1.0);
    }
}
