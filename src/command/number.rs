//! Numbers as arguments and replies write them. Arguments are read as by Redis's `string2ll` and `string2d`, which
//! RedisBloom relies on.

/// Returns the integer in its canonical form: no plus sign, no leading zero, no space, no exponent.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', ..] => true,
        _ => false,
    };
    std::str::from_utf8(text).ok().filter(|_| canonical)?.parse().ok()
}

/// Returns a decimal or hexadecimal floating-point number, or an infinity. Refuses NaN, numbers that overflow, and
/// numbers that underflow to zero.
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    if let Some(hexadecimal) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        return parse_hexadecimal(hexadecimal).map(|value| sign * value);
    }
    let value: f64 = unsigned.parse().ok().filter(|_| !unsigned.starts_with(['+', '-']))?;
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    let overflows = value.is_infinite() && is_number;
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let underflows = value == 0.0 && mantissa.contains(|digit| ('1'..='9').contains(&digit));
    (!value.is_nan() && !overflows && !underflows).then_some(sign * value)
}

/// Returns the value of a C hexadecimal floating-point number without its `0x`, such as `1.8p-3`. It has at most 13
/// digits, as many as a double can represent.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.len().checked_add(fraction.len()).filter(|digits| (1..=13).contains(digits))?;
    let mut value = 0.0f64;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let fraction_bits = i32::try_from(fraction.len().min(digits)).ok()?.checked_mul(4)?;
    let scaled = value * 2.0f64.powi(exponent.checked_sub(fraction_bits)?);
    (scaled.is_finite() && (scaled != 0.0 || value == 0.0)).then_some(scaled)
}

/// Returns whether a number is strictly between 0 and 1.
#[must_use]
pub fn is_ratio(number: f64) -> bool {
    number > 0.0 && number < 1.0
}

/// Returns a number as C's `%g` writes it: six significant digits, and an exponent of at least two digits below 1e-4
/// and from 1e6.
pub(super) fn six_digits(number: f64) -> String {
    let scientific = format!("{number:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let rounded: f64 = scientific.parse().unwrap_or(number);
        return rounded.to_string();
    }
    let digits = mantissa.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the shortest decimal that parses to the same double. It has an exponent if it is smaller than a millionth.
#[must_use]
pub fn shortest(number: f64) -> String {
    const PLAIN_MIN: f64 = 1e-6;
    if number != 0.0 && number.abs() < PLAIN_MIN { format!("{number:e}") } else { number.to_string() }
}

/// Returns a positive number with three significant digits, rounded up.
pub(super) fn rounded_up(number: f64) -> String {
    let unit = 10f64.powf(number.log10().floor() - 2.0);
    six_digits((number / unit).ceil() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (text, value) in [("0", 0), ("7", 7), ("-12", -12), ("9223372036854775807", i64::MAX)] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value), "{text}");
        }
        assert_eq!(parse_integer(b"-9223372036854775808"), Some(i64::MIN));
        for text in ["", "-", "+5", "007", "-0", "1e3", " 1", "1 ", "9223372036854775808", "0x10", "1.0"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_integer(b"\xff"), None);
    }

    #[test]
    fn doubles_follow_strtod_and_refuse_what_redis_refuses() {
        let accepted = [
            ("1e-2", 0.01),
            (".01", 0.01),
            ("1.", 1.0),
            ("+0.5", 0.5),
            ("-1", -1.0),
            ("0", 0.0),
            ("0e9", 0.0),
            ("0x1p-3", 0.125),
            ("0X1.8P1", 3.0),
            ("0x.8", 0.5),
            ("inf", f64::INFINITY),
            ("-Infinity", f64::NEG_INFINITY),
            ("5e-324", 5e-324),
        ];
        for (text, value) in accepted {
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
        let refused = [
            "",
            "nan",
            "NaN",
            "-nan",
            " 0.1",
            "0.1 ",
            "0.01f",
            "1e-400",
            "1e400",
            "+-1",
            "--1",
            "0x",
            "0xp1",
            ".",
            "e5",
            "0x1p-2000",
            "0x1p2000",
            "0xg",
        ];
        for text in refused {
            assert_eq!(parse_double(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_rounded_up_to_three_digits() {
        for (number, text) in [(0.012_34, "0.0124"), (0.01, "0.01"), (0.999_9, "1"), (1.234_5e-7, "1.24e-07")]
        {
            assert_eq!(rounded_up(number), text);
        }
    }

    #[test]
    fn very_small_numbers_have_an_exponent() {
        let pairs = [
            (1.034_81e-57, "1.03481e-57"),
            (-5e-324, "-5e-324"),
            (9.99e-7, "9.99e-7"),
            (1e-6, "0.000001"),
            (0.007_9, "0.0079"),
            (0.0, "0"),
            (1e15, "1000000000000000"),
        ];
        for (number, text) in pairs {
            assert_eq!(shortest(number), text);
            assert_eq!(parse_double(text.as_bytes()), Some(number));
        }
    }

    #[test]
    fn six_digits_are_written_as_by_c() {
        let pairs = [
            (0.01, "0.01"),
            (0.0075, "0.0075"),
            (0.7425, "0.7425"),
            (1.0 / 3.0, "0.333333"),
            (0.0001, "0.0001"),
            (6.25e-5, "6.25e-05"),
            (5e-7, "5e-07"),
            (1.234_567_8e-10, "1.23457e-10"),
            (5e-324, "4.94066e-324"),
        ];
        for (number, text) in pairs {
            assert_eq!(six_digits(number), text);
        }
    }
}
