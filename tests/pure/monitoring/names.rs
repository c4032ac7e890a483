//! The names that docs/monitoring.md documents.

use std::collections::BTreeSet;

/// The page.
pub(crate) const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring.md"));

/// Returns the texts in backquotes, in the order of the page.
fn quoted() -> impl Iterator<Item = &'static str> {
    let prose = PAGE.split("```").step_by(2);
    prose.flat_map(|text| text.split('`').skip(1).step_by(2))
}

/// Returns the kinds of filters, by the first part of their fields.
pub(crate) fn kinds() -> BTreeSet<&'static str> {
    quoted().filter_map(|word| word.strip_suffix("_...")).collect()
}

/// How names begin that the script for the exporter adds for single filters.
pub(crate) const OF_FILTERS: &str = "bf_filter_";

/// Returns the names that the script adds, without keys.
pub(crate) fn of_filters() -> BTreeSet<&'static str> {
    let names = quoted().filter(|word| word.starts_with(OF_FILTERS));
    names.map(|word| word.split(':').next().unwrap_or(word)).collect()
}

/// Returns every field of INFO that the page names.
pub(crate) fn fields() -> BTreeSet<String> {
    let is_field =
        |word: &&str| word.starts_with("bf_") && !word.starts_with(OF_FILTERS) && !word.ends_with('.');
    let whole = quoted().filter(is_field);
    let of_kinds = kinds().into_iter().flat_map(|kind| {
        quoted().filter(|word| word.starts_with('_')).map(move |field| format!("{kind}{field}"))
    });
    whole.map(str::to_owned).chain(of_kinds).collect()
}
