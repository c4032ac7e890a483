//! The option that a client probably meant.

use super::table::{ArgumentKind, ArgumentSpec};

/// Most bytes of a word for which an option is suggested.
const WORD_MAX_BYTES: usize = 32;
/// Fewest bytes of a word in which two may be replaced, inserted or removed. In a shorter one it may be one.
const TWO_EDITS_MIN_BYTES: usize = 5;
/// Fewest bytes of a word or an option that is compared by edits.
const COMPARED_MIN_BYTES: usize = 3;
/// Fewest bytes that an option and a longer or shorter word begin with in common.
const PREFIX_MIN_BYTES: usize = 4;

/// Returns the option of a command that is most like a word, in any case; `None` if none is like it.
/// O(options * bytes squared).
pub(super) fn nearest(syntax: &[ArgumentSpec], word: &[u8]) -> Option<&'static str> {
    if word.len() > WORD_MAX_BYTES {
        return None;
    }
    let word = word.to_ascii_uppercase();
    let choices = syntax.iter().flat_map(|argument| match argument.kind {
        ArgumentKind::OneOf(choices) if argument.token.is_none() => choices,
        _ => std::slice::from_ref(argument),
    });
    let options = choices.filter_map(|choice| choice.option).map(|option| option.text());
    let edits = options.map(|option| (edits(option.as_bytes(), &word), option));
    let near = edits.filter(|(edits, option)| {
        let is_compared = option.len().min(word.len()) >= COMPARED_MIN_BYTES;
        let edits_max = if word.len() < TWO_EDITS_MIN_BYTES { 1 } else { 2 };
        (is_compared && *edits <= edits_max) || common_bytes(option.as_bytes(), &word) >= PREFIX_MIN_BYTES
    });
    near.min_by_key(|(edits, _)| *edits).map(|(_, option)| option)
}

/// Returns the number of bytes with which both begin.
fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns how many bytes must be replaced, inserted or removed to make one of the other (Levenshtein's distance).
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (done, byte) in one.iter().enumerate() {
        let mut corner = done;
        let mut left = done + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, other) in row.iter_mut().skip(1).zip(other) {
            let least = (*cell).min(left) + 1;
            left = least.min(corner + usize::from(byte != other));
            corner = std::mem::replace(cell, left);
        }
    }
    row.last().copied().unwrap_or(one.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Command;

    #[test]
    fn the_distance_is_that_of_levenshtein() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "ABC", 3),
            ("ABC", "", 3),
            ("KITTEN", "SITTING", 3),
            ("KEYD", "KEYED", 1),
            ("NONSCALIN", "NONSCALING", 1),
            ("FLAW", "LAWN", 2),
        ] {
            assert_eq!(edits(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        }
    }

    #[test]
    fn a_mistyped_option_has_a_suggestion() {
        for (word, expected) in [
            ("EXPAND", Some("EXPANSION")),
            ("expansio", Some("EXPANSION")),
            ("KEYD", Some("KEYED")),
            ("IFNOTEXIST", Some("IFNOTEXISTS")),
            ("NONSCALIN", Some("NONSCALING")),
            ("NOSCALING", Some("NONSCALING")),
            ("COUNT", Some("COUNTING")),
            ("windows", Some("WINDOW")),
            ("KEY", None),
            ("EXP", None),
            ("TTL", None),
            ("NX", None),
            ("X", None),
            ("", None),
            ("\0\u{FF}", None),
        ] {
            assert_eq!(nearest(Command::Reserve.spec().syntax, word.as_bytes()), expected, "{word}");
        }
        let long = [b'E'; 1 << 20];
        assert_eq!(nearest(Command::Reserve.spec().syntax, &long), None);
    }
}
