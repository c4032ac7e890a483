//! Decodes arguments of BF.LOAD.

use everbloom::format::filter::from_blob;

use super::exercise::exercise;
use super::input::Input;

/// Decodes one blob, and uses the filter if the blob is accepted.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    if let Ok(filter) = from_blob(input.rest(), &limit) {
        assert!(filter.layers().iter().map(|layer| layer.bits().size_bytes()).sum::<u64>() <= limit);
        exercise(filter, &mut Input::new(data), limit);
    }
}
