//! Numbers and tables as text.

use super::record::Row;

/// Returns a number with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value >= 99.5 => format!("{value:.0}"),
        value if value >= 9.95 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns the text of a mark of a scale, without trailing zeros.
pub(crate) fn rounded(value: f64) -> String {
    ((value * 1e6).round() / 1e6).to_string()
}

/// Returns a whole number with its digits in groups of three.
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

/// Returns a table with these columns.
pub(crate) fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
    let head = line(&columns) + &line(&vec!["---".to_owned(); columns.len()]);
    rows.into_iter().fold(head, |table, row| table + &line(&row))
}

/// Returns a cell of a table, or a dash.
pub(crate) fn shown(row: Option<&Row>) -> String {
    row.and_then(Row::number).map_or("-".to_owned(), number)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_have_the_digits_that_matter() {
        use super::*;
        assert_eq!([0.123, 9.96, 435.4, f64::NAN].map(number), ["0.12", "10.0", "435", "-"]);
        assert_eq!([100.0, 12_700.0, 1e8].map(grouped), ["100", "12 700", "100 000 000"]);
        assert_eq!([0.1 + 0.2, 50.0].map(rounded), ["0.3", "50"]);
    }
}
