//! The options of a new filter, for BF.RESERVE.

use std::ops::RangeInclusive;

use clap::value_parser;
use everbloom::Steps;

use super::failure::Failure;

/// Options of a new filter.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArguments {
    /// False-positive rate, between 0 and 1: 0.01 is 1 %
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = error_rate)]
    pub(crate) error: f64,
    /// Number of items: 5000, 500k, 5M or 5e6. Without it, the tool counts the items first
    #[arg(long, visible_alias = "items", value_name = "ITEMS", value_parser = items)]
    pub(crate) capacity: Option<u64>,
    /// How many times larger each new layer is than the one before, in formats that grow by layers
    #[arg(
        long,
        value_name = "FACTOR",
        value_parser = value_parser!(u32).range(1..=EXPANSION_MAX),
        conflicts_with = "nonscaling"
    )]
    pub(crate) expansion: Option<u32>,
    /// Refuse items when the filter is full, instead of growing
    #[arg(long)]
    pub(crate) nonscaling: bool,
    /// Hash items with a random secret key, against crafted inputs
    #[arg(long)]
    pub(crate) keyed: bool,
    /// Count items, so that they can be deleted
    #[arg(long, conflicts_with = "window")]
    pub(crate) counting: bool,
    /// Sliding window: each item expires after this time (500ms, 30s, 15m, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", value_parser = window, group = "windowed")]
    pub(crate) window: Option<u64>,
    /// Steps of the window, 14 or 120: an item expires at most a step late
    #[arg(long, value_name = "NUMBER", requires = "window", value_parser = steps)]
    pub(crate) steps: Option<Steps>,
    /// Time to live of the key (500ms, 30s, 15m, 12h, 7d, 2w)
    #[arg(long, alias = "ttl", value_name = "TIME", value_parser = milliseconds)]
    pub(crate) ex: Option<u64>,
}

/// The largest expansion that a filter can have.
pub(crate) const EXPANSION_MAX: i64 = 32_768;

/// Parses an error rate.
pub(crate) fn error_rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate < 1.0);
    rate.ok_or_else(|| "an error rate is a number between 0 and 1, such as 0.01 for 1 %".to_owned())
}

/// Parses a number of items, at least 1.
pub(crate) fn items(text: &str) -> Result<u64, String> {
    let number = decimal(text).filter(|items| *items > 0);
    number.ok_or_else(|| "a number of items is at least 1, such as 5000, 500k, 5M, 1G or 5e6".to_owned())
}

/// The largest capacity that a filter can have.
const CAPACITY_MAX_ITEMS: u64 = 1 << 40;

/// Returns an error if a filter cannot have this capacity.
pub(crate) fn check_capacity(items: u64) -> Result<(), Failure> {
    if items <= CAPACITY_MAX_ITEMS {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "a filter has at most {CAPACITY_MAX_ITEMS} items: give fewer, or more --partitions"
    )))
}

/// Returns the whole number that a text such as `5000`, `1.25M` or `2e6` stands for; `None` if it is not one.
fn decimal(text: &str) -> Option<u64> {
    let units = [("k", 3), ("K", 3), ("M", 6), ("G", 9)];
    let with_unit = units.iter().find_map(|(unit, zeros)| Some((text.strip_suffix(unit)?, *zeros)));
    let (digits, exponent): (&str, u32) = match (with_unit, text.split_once(['e', 'E'])) {
        (Some(parts), _) => parts,
        (None, Some((digits, exponent))) => (digits, exponent.trim_start_matches('+').parse().ok()?),
        (None, None) => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let places = u32::try_from(fraction.len()).ok()?;
    let number: u64 = format!("{whole}{fraction}").parse().ok()?;
    10u64.checked_pow(exponent.checked_sub(places)?)?.checked_mul(number)
}

/// Milliseconds of the shortest and of the longest window that a filter can have.
const WINDOW_MS: RangeInclusive<u64> = 100..=1 << 40;

/// Parses a window in milliseconds.
pub(crate) fn window(text: &str) -> Result<u64, String> {
    let ms = Some(milliseconds(text)?).filter(|ms| WINDOW_MS.contains(ms));
    ms.ok_or_else(|| "a window is between 100ms and 12725d (34 years)".to_owned())
}

/// Parses the steps of a window.
pub(crate) fn steps(text: &str) -> Result<Steps, String> {
    let steps = text.parse().ok().and_then(Steps::of_count);
    steps.ok_or_else(|| "a window has 14 or 120 steps".to_owned())
}

/// The longest time in milliseconds: a server refuses an expiry whose sum with its clock has more than 63 bits.
pub(crate) const MILLISECONDS_MAX: u64 = u64::MAX / 4;

/// Parses a time in milliseconds, from 1 to [`MILLISECONDS_MAX`].
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let wrong = || "a time is a whole number with a unit, such as 500ms, 30s, 15m, 12h, 7d or 2w".to_owned();
    let digits = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let ms = number.checked_mul(unit_ms).filter(|ms| *ms <= MILLISECONDS_MAX);
    let ms = ms.ok_or_else(|| format!("a time is at most {MILLISECONDS_MAX}ms"))?;
    Some(ms).filter(|ms| *ms > 0).ok_or_else(wrong)
}

impl FilterArguments {
    /// Returns whether only everbloom has these options.
    pub(crate) fn need_everbloom(&self) -> bool {
        self.keyed || self.counting || self.window.is_some()
    }

    /// Returns the arguments after `BF.RESERVE key`.
    pub(crate) fn words(&self, capacity_items: u64) -> Vec<String> {
        let mut words = vec![self.error.to_string(), capacity_items.to_string()];
        words.extend(
            self.expansion.into_iter().flat_map(|factor| ["EXPANSION".to_owned(), factor.to_string()]),
        );
        let flags = [(self.nonscaling, "NONSCALING"), (self.keyed, "KEYED"), (self.counting, "COUNTING")];
        words.extend(flags.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| word.to_owned()));
        words.extend(self.window.into_iter().flat_map(|ms| match ms % 1000 {
            0 => ["WINDOW".to_owned(), (ms / 1000).to_string()],
            _ => ["PWINDOW".to_owned(), ms.to_string()],
        }));
        let steps = self.steps.into_iter();
        words.extend(steps.flat_map(|steps| ["STEPS".to_owned(), steps.count().to_string()]));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::{error_rate, items, milliseconds, window};

    #[test]
    fn times_have_units() {
        for (text, ms) in [("7d", 604_800_000), ("90s", 90_000), ("250ms", 250), ("2w", 1_209_600_000)] {
            assert_eq!(milliseconds(text), Ok(ms));
        }
        for text in [
            "",
            "0",
            "7",
            "0s",
            "1e3",
            "d",
            "soon",
            "1y",
            "-1s",
            "99999999999999999999w",
            "16000000000w",
            "1.5h",
        ] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows_have_a_range() {
        assert_eq!((window("100ms"), window("12725d")), (Ok(100), Ok(1_099_440_000_000)));
        assert!(["99ms", "12726d", "0", "soon"].iter().all(|text| window(text).is_err()));
    }

    #[test]
    fn numbers_of_items_may_have_exponents_and_units() {
        for (text, number) in [
            ("17", 17),
            ("1e8", 100_000_000),
            ("1.5e3", 1500),
            ("2E+2", 200),
            ("500k", 500_000),
            ("5M", 5_000_000),
            ("1.25M", 1_250_000),
            ("2G", 2_000_000_000),
        ] {
            assert_eq!(items(text), Ok(number));
        }
        for text in [
            "", "0", "0k", "e", "k", "1e", "1e99", "1.55e1", "-1", "1.5", "many", "1e-3", "5m", "1e3k", "5MB",
        ] {
            assert!(items(text).is_err(), "{text}");
        }
    }

    #[test]
    fn error_rates_are_between_0_and_1() {
        assert_eq!((error_rate("0.001"), error_rate("1e-9")), (Ok(0.001), Ok(1e-9)));
        assert!(["0", "1", "1.5", "-0.1", "NaN", "1%", ""].iter().all(|text| error_rate(text).is_err()));
    }
}
