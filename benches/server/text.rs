//! Formats numbers and tables as text.

use super::record::Row;

/// Returns the number with about three digits. For sizes, which are the same in every run.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value >= 99.5 => grouped(value),
        value if value >= 9.95 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns the number with two significant digits. For measurements, which differ between runs in the third digit.
pub(crate) fn two_digits(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = format!("{value:.1e}");
    let rounded: f64 = exponent.parse().unwrap_or(value);
    let decimals = exponent.split_once("e-").and_then(|(_, zeros)| zeros.parse().ok()).unwrap_or(0) + 1;
    if rounded >= 10.0 { grouped(rounded) } else { format!("{rounded:.decimals$}") }
}

/// Returns the number for a scale, without trailing zeros.
pub(crate) fn mark(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// Returns the whole number with spaces between groups of three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns the lines of the text, wrapped at `characters`.
pub(crate) fn wrapped(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        lines.push(String::new());
        for word in line.split_whitespace() {
            match lines.last_mut() {
                Some(line) if line.is_empty() => line.push_str(word),
                Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
    }
    lines
}

/// Returns a table with these columns.
pub(crate) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let head = line(&columns) + &line(&vec!["---".to_owned(); columns.len()]);
    rows.into_iter().fold(head, |table, row| table + &line(&row))
}

/// Returns the text of a cell of a table, or a dash.
pub(crate) fn shown(row: Option<&Row>) -> String {
    let Some((row, value)) = row.and_then(|row| Some((row, row.number()?))) else { return "-".to_owned() };
    if row.unit.ends_with("per item") { number(value) } else { two_digits(value) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_have_the_digits_that_matter() {
        use super::*;
        assert_eq!([0.123, 9.96, 435.4, f64::NAN].map(number), ["0.12", "10.0", "435", "-"]);
        let two = [0.0, 0.000_097, 0.0123, 1.0, 9.96, 46.4, 119.2, 20_740.0, f64::NAN].map(two_digits);
        assert_eq!(two, ["0", "0.000097", "0.012", "1.0", "10", "46", "120", "21 000", "-"]);
        assert_eq!([100.0, 12_700.0, 1e8].map(grouped), ["100", "12 700", "100 000 000"]);
        assert_eq!([0.1 + 0.2, 50.0].map(mark), ["0.3", "50"]);
        assert_eq!(wrapped("one two three\nfour", 7), ["one two", "three", "four"]);
    }
}
