//! The options of a new filter, for BF.RESERVE and for the library.

use everbloom::{Growth, Options};

use super::failure::Failure;
use super::input::{self, Times};
use super::output::Output;

/// Options of a new filter.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Share of absent items that may be false positives, strictly between 0 and 1
    #[arg(long, value_name = "RATE", default_value_t = 0.01, help_heading = "Filter")]
    pub(crate) error: f64,
    /// Capacity in items; without it the items are counted first
    #[arg(long, visible_alias = "items", value_name = "ITEMS", value_parser = items, help_heading = "Filter")]
    pub(crate) capacity: Option<u64>,
    /// How many times larger each further layer is than the one before
    #[arg(long, value_name = "FACTOR", conflicts_with = "nonscaling", help_heading = "Filter")]
    pub(crate) expansion: Option<u32>,
    /// Refuse items once it is full
    #[arg(long, help_heading = "Filter")]
    pub(crate) nonscaling: bool,
}

/// Options of a new filter that only a server can make.
#[derive(Clone, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct ServerArguments {
    /// Hash items with a secret random key
    #[arg(long, help_heading = "Filter")]
    pub(crate) keyed: bool,
    /// Keep counters in place of bits, so that items can be deleted
    #[arg(long, help_heading = "Filter")]
    pub(crate) counting: bool,
    /// Time after which items expire: seconds, or with a unit (500ms, 30s, 15m, 12h, 7d, 2w)
    #[arg(long, value_name = "TIME", value_parser = milliseconds, group = "windowed", help_heading = "Filter")]
    pub(crate) window: Option<u64>,
    /// Seconds after which the key expires
    #[arg(long, value_name = "SECONDS", help_heading = "Filter")]
    pub(crate) ex: Option<u64>,
}

/// Parses a number of items, also in the form 1e8.
pub(crate) fn items(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no number of items");
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let (digits, exponent) = text.split_once(['e', 'E']).ok_or_else(wrong)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let exponent: u32 = exponent.trim_start_matches('+').parse().map_err(|_| wrong())?;
    let places = u32::try_from(fraction.len()).map_err(|_| wrong())?;
    let number: u64 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let zeros = exponent.checked_sub(places).ok_or_else(wrong)?;
    10u64.checked_pow(zeros).and_then(|factor| number.checked_mul(factor)).ok_or_else(wrong)
}

/// Milliseconds of the shortest and of the longest window that a filter can have.
pub(crate) const WINDOW_MS: std::ops::RangeInclusive<u64> = 100..=1 << 40;

/// Parses a time in milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no time: 500ms, 30s, 15m, 12h, 7d, 2w, or seconds");
    let digits = text.find(|next: char| !next.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(unit_ms).filter(|ms| *ms > 0).ok_or_else(wrong)
}

/// Returns the words of BF.RESERVE for an expansion.
pub(crate) fn expansion_words(expansion: Option<u32>) -> Vec<String> {
    expansion.map_or_else(Vec::new, |expansion| vec!["EXPANSION".to_owned(), expansion.to_string()])
}

/// Returns the words of BF.RESERVE for a window.
pub(crate) fn window_words(window_ms: Option<u64>) -> Vec<String> {
    match window_ms {
        Some(ms) if ms.is_multiple_of(1000) => vec!["WINDOW".to_owned(), (ms / 1000).to_string()],
        Some(ms) => vec!["PWINDOW".to_owned(), ms.to_string()],
        None => Vec::new(),
    }
}

impl Arguments {
    /// Returns the chosen capacity, or the number of items in the input that have not expired.
    pub(crate) fn capacity_of(
        &self,
        input: &input::Arguments,
        times: Option<&Times>,
        output: &Output,
    ) -> Result<u64, Failure> {
        match self.capacity {
            Some(capacity_items) => Ok(capacity_items),
            None if input.is_stdin() => {
                Err(Failure::usage("standard input cannot be counted first: say --capacity ITEMS"))
            }
            None => input.count(times, output),
        }
    }

    /// Returns the options for the library.
    pub(crate) fn library(&self, capacity_items: u64) -> Result<Options, Failure> {
        let growth = match self.expansion {
            _ if self.nonscaling => Growth::Fixed,
            Some(0) => {
                return Err(Failure::usage("--expansion must be at least 1; --nonscaling is another word"));
            }
            Some(expansion) => Growth::Scaling { expansion },
            None => Options::default().growth,
        };
        Ok(Options { error_rate: self.error, capacity_items: capacity_items.max(1), growth })
    }

    /// Returns the words after `BF.RESERVE key`.
    pub(crate) fn words(
        &self,
        server: &ServerArguments,
        capacity_items: u64,
    ) -> Result<Vec<String>, Failure> {
        self.library(capacity_items)?;
        let mut words = vec![self.error.to_string(), capacity_items.max(1).to_string()];
        words.extend(expansion_words(self.expansion));
        let flags = [(self.nonscaling, "NONSCALING"), (server.keyed, "KEYED"), (server.counting, "COUNTING")];
        words.extend(flags.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| word.to_owned()));
        words.extend(window_words(server.window));
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::{items, milliseconds};

    #[test]
    fn times_have_units() {
        for (text, ms) in [("7d", 604_800_000), ("90", 90_000), ("250ms", 250), ("2w", 1_209_600_000)] {
            assert_eq!(milliseconds(text), Ok(ms));
        }
        for text in ["", "0", "1e3", "d", "soon", "1y", "-1s", "99999999999999999999w", "1.5h"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_of_items_may_have_exponents() {
        for (text, number) in [("0", 0), ("17", 17), ("1e8", 100_000_000), ("1.5e3", 1500), ("2E+2", 200)] {
            assert_eq!(items(text), Ok(number));
        }
        for text in ["", "e", "1e", "1e99", "1.55e1", "-1", "1.5", "many", "1e-3"] {
            assert!(items(text).is_err(), "{text}");
        }
    }
}
