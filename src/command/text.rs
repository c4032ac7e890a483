//! Numbers as replies write them.

/// A number as C's `%g` writes it: six significant digits, an exponent of at least two digits below 1e-4
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

/// Returns a positive number with three significant digits, rounded up.
pub(super) fn rounded_up(number: f64) -> String {
    let unit = 10f64.powf(number.log10().floor() - 2.0);
    six_digits((number / unit).ceil() * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up_to_three_digits() {
        for (number, text) in [(0.012_34, "0.0124"), (0.01, "0.01"), (0.999_9, "1"), (1.234_5e-7, "1.24e-07")]
        {
            assert_eq!(rounded_up(number), text);
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
