//! Reads the times of items for a sliding-window filter.

use std::time::Instant;

use chrono::{DateTime, SecondsFormat};
use everbloom::{ItemTime, Steps};

use crate::output::shown;
use crate::packing::BatchTime;

/// The smallest number that is read as milliseconds. As milliseconds it is in the year 1973, as seconds in the year
/// 5138.
const MILLISECONDS_MIN: u64 = 100_000_000_000;

/// The column with the times of the items, and the clock and the window with which they are compared.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// The column of the time.
    pub(super) column: String,
    /// The column of the life, if the items have lives of their own.
    pub(super) life_column: Option<String>,
    window_ms: u64,
    steps: Steps,
    /// The server's clock in milliseconds of UNIX time, and when it was read.
    server_ms: u64,
    read: Instant,
}

impl Times {
    /// Returns the reader of the times in a column, and of the lives in another one. `server_ms` is the current time of the
    /// server.
    pub(crate) fn new(
        (column, life_column): (&str, Option<&str>),
        (window_ms, steps): (u64, Steps),
        server_ms: u64,
    ) -> Self {
        let life_column = life_column.map(str::to_owned);
        Self { column: column.to_owned(), life_column, window_ms, steps, server_ms, read: Instant::now() }
    }

    /// Parses the time of an item, and its life if it has one of its own: seconds after its time. Returns them as the time of
    /// a batch; `None` if the item has expired.
    ///
    /// # Errors
    /// The text is not a time, or the time is more than a generation ahead of the clock. Or the life is no number of
    /// seconds from 1 to the window.
    pub(super) fn batch_time(&self, text: &[u8], life: Option<&[u8]>) -> Result<Option<BatchTime>, String> {
        let at_ms = milliseconds(text).ok_or_else(|| {
            let text = shown(text);
            format!("`{text}` is not a time: seconds or milliseconds since 1970, or 2026-11-23T10:00:00Z")
        })?;
        let passed_ms = u64::try_from(self.read.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now_ms = self.server_ms.saturating_add(passed_ms);
        let life_ms = life.map(|life| self.life_ms(life)).transpose()?;
        let end_ms = life_ms.map(|life_ms| at_ms.min(now_ms).saturating_add(life_ms));
        if end_ms.is_some_and(|end_ms| end_ms <= now_ms) {
            return Ok(None);
        }
        match ItemTime::with_steps(self.window_ms, self.steps, at_ms, now_ms) {
            ItemTime::Live { generation } => {
                let of_end = |end_ms| match ItemTime::with_steps(self.window_ms, self.steps, end_ms, end_ms) {
                    ItemTime::Live { generation } => generation,
                    ItemTime::Expired | ItemTime::Ahead => 0,
                };
                let generations = (generation, end_ms.map_or(0, of_end));
                Ok(Some(BatchTime { generations, at_ms, life_ms }))
            }
            ItemTime::Expired => Ok(None),
            ItemTime::Ahead => Err(format!(
                "the time {} is too far ahead of the server's clock, by more than 1/{} of the window",
                rfc3339(at_ms),
                self.steps.count()
            )),
        }
    }
}

impl Times {
    /// Parses the life of an item, a whole number of seconds, and returns it in milliseconds.
    fn life_ms(&self, text: &[u8]) -> Result<u64, String> {
        let seconds = str::from_utf8(text).ok().and_then(|text| text.trim_ascii().parse::<u64>().ok());
        let life_ms = seconds.and_then(|seconds| seconds.checked_mul(1000));
        life_ms.filter(|life_ms| (1..=self.window_ms).contains(life_ms)).ok_or_else(|| {
            format!(
                "`{}` is not a life: a whole number of seconds, at least 1 and at most the window",
                shown(text)
            )
        })
    }
}

/// Returns a time in milliseconds since 1970 as RFC 3339 in UTC, or as a number if it is after the year 262142.
fn rfc3339(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(DateTime::from_timestamp_millis);
    time.map_or_else(|| ms.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Returns a time in milliseconds of UNIX time. The text is a number of seconds, a number of milliseconds (from
/// [`MILLISECONDS_MIN`] on), or a time in RFC 3339. Fractions of a millisecond are cut off. Times before 1970 are 0.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let text = str::from_utf8(text).ok()?.trim_ascii();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(whole) && is_digits(fraction) {
        let whole: u64 = whole.parse().ok()?;
        let thousandths: u64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
        return Some(if whole >= MILLISECONDS_MIN { whole } else { whole * 1000 + thousandths });
    }
    let time = DateTime::parse_from_rfc3339(text).ok()?;
    Some(u64::try_from(time.timestamp_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_forms() {
        for (text, ms) in [
            ("0", 0),
            ("1795428000", 1_795_428_000_000),
            ("1795428000.5", 1_795_428_000_500),
            ("1795428000.123456", 1_795_428_000_123),
            (" 99999999999 ", 99_999_999_999_000),
            ("100000000000", 100_000_000_000),
            ("1795428000123", 1_795_428_000_123),
            ("1795428000123.9", 1_795_428_000_123),
            ("2026-11-23T10:00:00Z", 1_795_428_000_000),
            ("2026-11-23T11:30:00.25+01:30", 1_795_428_000_250),
            ("2026-11-23 02:00:00.1234567891-08:00", 1_795_428_000_123),
            ("1969-12-31T23:59:59Z", 0),
        ] {
            assert_eq!(milliseconds(text.as_bytes()), Some(ms), "{text}");
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "1e9",
            "1.2.3",
            "99999999999999999999",
            "2026-11-23",
            "2026-11-23T10:00:00",
            "2026-02-30T10:00:00Z",
            "10:00",
            "soon",
            "\u{661}",
        ] {
            assert_eq!(milliseconds(text.as_bytes()), None, "{text}");
        }
        assert_eq!(milliseconds(b"\xFF"), None);
    }

    #[test]
    fn items_are_live_expired_or_ahead_by_the_clock_of_the_server() {
        // A window of an hour, so that the time that passes in the test makes no difference.
        let (window_ms, server_ms) = (3_600_000, 1_795_428_000_000);
        let times = Times::new(("time", None), (window_ms, Steps::Fourteen), server_ms);
        let time = |ms: u64| times.batch_time(ms.to_string().as_bytes(), None);
        let generation = |ms: u64| time(ms).unwrap().map(|time| time.generations.0);
        assert_eq!(time(server_ms).unwrap().map(|time| time.at_ms), Some(server_ms));
        assert!(generation(server_ms - window_ms / 2) < generation(server_ms));
        assert_eq!(generation(server_ms - 2 * window_ms), None);
        assert!(generation(server_ms + window_ms / 20).is_some());
        assert!(time(server_ms + 2 * window_ms).unwrap_err().contains("ahead"));
        assert!(times.batch_time(b"soon", None).unwrap_err().contains("`soon` is not a time"));
        // Items whose lives end in one step can be in one batch.
        let now = server_ms.to_string();
        let life = |seconds: &str| times.batch_time(now.as_bytes(), Some(seconds.as_bytes()));
        let ends = |seconds: &str| life(seconds).unwrap().map(|time| time.generations.1);
        assert!(ends("60") < ends("900") && ends("900") < ends("3600"));
        assert_eq!(life("900").unwrap().and_then(|time| time.life_ms), Some(900_000));
        let earlier = (server_ms - 100_000).to_string();
        assert_eq!(times.batch_time(earlier.as_bytes(), Some(b"100")).unwrap(), None);
        assert!(
            ["0", "3601", "-1", "1.5", ""]
                .iter()
                .all(|text| life(text).unwrap_err().contains("is not a life"))
        );
    }
}
