//! Plain strings of the server: the bitmaps that clients fill with SETBIT.

use thiserror::Error;

use everbloom_filter::bits::{ArrayForm, PAGE_BYTES};
use everbloom_filter::filter::policy::{BitOrder, StringForm};
use everbloom_filter::limits::STRING_MAX_BYTES;
use everbloom_filter::{BitArray, OutOfMemory};

/// Why a string is not a filter with this number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StringError {
    /// A bit is set after the end of a filter of this size: the size or the bit order is wrong.
    #[error(
        "the string has bits set at byte {byte}, beyond a filter of {size_bits} bits: check the number of bits and \
                 their order"
    )]
    BeyondEnd {
        /// Position of the byte with the first such bit, in bytes.
        byte: u64,
        /// Bits of the filter.
        size_bits: u64,
    },
    /// The string is longer than the filter by more than [`STRING_MAX_BYTES`].
    #[error(
        "the string has {length_bytes} bytes, too many for a filter of {size_bits} bits: check the number of bits"
    )]
    TooLong {
        /// Bytes of the string.
        length_bytes: u64,
        /// Bits of the filter.
        size_bits: u64,
    },
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

/// Why a filter cannot be written as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ExportError {
    /// The string could be longer than [`STRING_MAX_BYTES`].
    #[error(
        "the exported string could have {most_bytes} bytes, more than a server's limit of {}",
        STRING_MAX_BYTES
    )]
    TooLong {
        /// The most bytes that the string can have.
        most_bytes: u64,
    },
    /// An allocation failed.
    #[error("out of memory")]
    OutOfMemory,
}

impl From<OutOfMemory> for ExportError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

impl ExportError {
    /// Checks the largest possible length of a string. O(1).
    pub(crate) const fn check(most_bytes: u64) -> Result<(), Self> {
        if most_bytes > STRING_MAX_BYTES { Err(Self::TooLong { most_bytes }) } else { Ok(()) }
    }
}

/// Reads a client's string into `size_bits` bits. A short or empty string is a filter whose
/// last bits are clear. O(bytes); pages that are all zero take no memory.
///
/// # Errors
/// [`StringError`]; the string is checked before anything is allocated.
pub fn read(string: &[u8], order: BitOrder, size_bits: u64) -> Result<(StringForm, BitArray), StringError> {
    let form = StringForm { order, length_bytes: string.len() as u64 };
    if !form.is_valid(size_bits) {
        return Err(StringError::TooLong { length_bytes: form.length_bytes, size_bits });
    }
    refuse_bits_beyond_end(string, order, size_bits)?;
    let made = BitArray::try_new(size_bits, ArrayForm::Block);
    let mut bits = made.map_err(|OutOfMemory| StringError::OutOfMemory)?;
    let size_bytes = bits.contents().len();
    let mut page = [0; PAGE_BYTES];
    let filter_bytes = string.get(..size_bytes.next_multiple_of(8)).unwrap_or(string);
    for (number, string) in filter_bytes.chunks(PAGE_BYTES).enumerate() {
        let offset = number.saturating_mul(PAGE_BYTES);
        copy(order, string, &mut page);
        // `copy` has written whole words. Bytes of the last word after the end of the filter are not added.
        let length = string.len().next_multiple_of(8).min(size_bytes.saturating_sub(offset));
        let fits = bits.add_bytes(offset, page.get(..length).unwrap_or(&[]));
        debug_assert!(fits, "a string without bits beyond the end");
    }
    Ok((form, bits))
}

/// Returns the length of the string that the client would have now, in bytes. O(words after the last set bit).
#[must_use]
pub fn current_length_bytes(form: StringForm, bits: &BitArray) -> u64 {
    let size_words = bits.size_words() as u64;
    // The words of a clear array are not read.
    let read_words = if bits.set_bits() == 0 { 0 } else { size_words };
    let last_word = bits.words().rev().zip(0..read_words).find(|(word, _)| *word != 0);
    let needed_bits = last_word
        .map_or(0, |(word, words_after)| (size_words - words_after) * 64 - u64::from(word.leading_zeros()));
    needed_bits.div_ceil(8).next_multiple_of(form.order.unit_bytes()).max(form.length_bytes)
}

/// Returns the string that the client would have now. O(bytes).
///
/// # Errors
/// [`ExportError`]. A filter is refused if its string could be too long, independently of its current bits.
pub fn write(form: StringForm, bits: &BitArray) -> Result<Vec<u8>, ExportError> {
    ExportError::check(bits.size_bytes().max(form.length_bytes))?;
    let mut string = zeroed(current_length_bytes(form, bits))?;
    fill(form, bits, &mut string);
    Ok(string)
}

/// Writes the bits to a clear string. Does not touch the string where the bits are clear. O(bytes).
pub(crate) fn fill(form: StringForm, bits: &BitArray, string: &mut [u8]) {
    for (string, words) in string.chunks_mut(PAGE_BYTES).zip(bits.pages()) {
        if words.iter().any(|word| *word != 0) {
            copy(form.order, bytemuck::cast_slice(words), string);
        }
    }
}

/// Converts eight bytes of a string, as a little-endian word, to a word of bits, or back: each conversion is its
/// own inverse.
const fn swap(order: BitOrder, word: u64) -> u64 {
    match order {
        BitOrder::Msb => word.reverse_bits().swap_bytes(),
        BitOrder::Lsb => word,
        BitOrder::BigEndianWords => word.swap_bytes(),
    }
}

/// Converts bytes of a string to bytes of bits, or back. `from` and `to` begin at a multiple of eight bytes. Bytes
/// of `to` after the last word of `from`, which may be incomplete, are unchanged.
fn copy(order: BitOrder, from: &[u8], to: &mut [u8]) {
    let rewritten = |bytes: [u8; 8]| swap(order, u64::from_le_bytes(bytes)).to_le_bytes();
    let whole_bytes = from.len().min(to.len()) / 8 * 8;
    let ((from, last_from), (to, last_to)) = (from.split_at(whole_bytes), to.split_at_mut(whole_bytes));
    let (from, to) = (from.as_chunks().0, to.as_chunks_mut().0);
    to.iter_mut().zip(from).for_each(|(to, from)| *to = rewritten(*from));
    // One more word, if one of the two does not end with a whole word.
    let mut word = [0; 8];
    word.iter_mut().zip(last_from).for_each(|(to, from)| *to = *from);
    if !last_from.is_empty() {
        last_to.iter_mut().zip(rewritten(word)).for_each(|(to, from)| *to = from);
    }
}

/// Returns clear bytes, which take memory only when they are written to.
pub(crate) fn zeroed(length_bytes: u64) -> Result<Vec<u8>, OutOfMemory> {
    let length_bytes = usize::try_from(length_bytes).map_err(|_| OutOfMemory)?;
    bytemuck::try_zeroed_vec(length_bytes).map_err(|()| OutOfMemory)
}

/// Checks that no bit is set at position `size_bits` or later. Words before this position are not read.
fn refuse_bits_beyond_end(string: &[u8], order: BitOrder, size_bits: u64) -> Result<(), StringError> {
    let whole_words = size_bits / 64;
    let Ok(offset) = usize::try_from(whole_words.saturating_mul(8)) else { return Ok(()) };
    let tail = string.get(offset..).unwrap_or(&[]);
    let (last, rest) = tail.split_at(tail.len().min(8));
    let mut word = [0; 8];
    copy(order, last, &mut word);
    let beyond_bits = u64::from_le_bytes(word) & (u64::MAX << (size_bits % 64));
    let in_last = (beyond_bits != 0).then(|| offset as u64 + u64::from(beyond_bits.trailing_zeros() / 8));
    let in_rest =
        || rest.iter().position(|byte| *byte != 0).map(|index| (offset + last.len() + index) as u64);
    match in_last.or_else(in_rest) {
        Some(byte) => Err(StringError::BeyondEnd { byte, size_bits }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits_of(string: &[u8], order: BitOrder, size_bits: u64) -> Vec<u64> {
        let (_, bits) = read(string, order, size_bits).unwrap();
        assert_eq!(bits.size_bits(), size_bits);
        let is_set =
            |position: &u64| bits.word((position / 64) as usize).unwrap() >> (position % 64) & 1 == 1;
        let set: Vec<u64> = (0..size_bits).filter(is_set).collect();
        assert_eq!(bits.set_bits(), set.len() as u64);
        set
    }

    #[test]
    fn each_order_stores_bits_as_its_clients_do() {
        // SETBIT 2, 3 and 5 make the string "4".
        assert_eq!(bits_of(b"4", BitOrder::Msb, 6), [2, 3, 5]);
        assert_eq!(bits_of(b"4", BitOrder::Lsb, 6), [2, 4, 5]);
        assert_eq!(bits_of(&[0x80, 0, 0, 0, 0, 0, 0, 2], BitOrder::BigEndianWords, 64), [1, 63]);
        assert_eq!(bits_of(&[0, 0, 0, 0, 0, 0, 0, 0, 1], BitOrder::Msb, 1 << 20), [71]);
        assert_eq!(bits_of(b"", BitOrder::Msb, 1), [] as [u64; 0]);
        for order in BitOrder::ALL {
            assert_eq!(BitOrder::from_id(order.id()), Some(order));
        }
        assert_eq!(BitOrder::from_id(0), None);
    }

    #[test]
    fn bits_beyond_the_end_are_refused_and_clear_bytes_are_not() {
        for (string, order, size_bits, byte) in [
            (&[0x20u8][..], BitOrder::Msb, 2, 0),
            (&[0x04], BitOrder::Lsb, 2, 0),
            (&[0, 0x80], BitOrder::Msb, 8, 1),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4], BitOrder::Msb, 64, 10),
            (
                &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 9],
                BitOrder::Lsb,
                64,
                16,
            ),
        ] {
            let error = StringError::BeyondEnd { byte, size_bits };
            assert_eq!(read(string, order, size_bits).unwrap_err(), error);
        }
        assert_eq!(bits_of(&[0xC0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], BitOrder::Msb, 2), [0, 1]);
        assert!(read(&[0; 12], BitOrder::BigEndianWords, 64).is_err());
        assert!(!StringForm { order: BitOrder::Msb, length_bytes: u64::MAX }.is_valid(8));
    }

    #[test]
    fn an_exported_string_ends_at_its_highest_bit() {
        for (length, size_bits) in [(0, 100), (3, 100), (13, 100), (14, 100), (5000, 8192 * 9 + 3), (40, 64)]
        {
            for order in [BitOrder::Msb, BitOrder::Lsb] {
                let mut string = vec![0u8; length];
                string.iter_mut().take((size_bits / 8) as usize).for_each(|byte| *byte = 0x5A);
                let (form, mut bits) = read(&string, order, size_bits).unwrap();
                assert_eq!(write(form, &bits).unwrap(), string, "{order:?} {length} {size_bits}");
                let last_byte = usize::try_from((size_bits - 1) / 8).unwrap();
                assert!(bits.add_bytes(last_byte, &[1 << ((size_bits - 1) % 8)]));
                let grown = write(form, &bits).unwrap();
                let last = usize::try_from((size_bits - 1) / 8).unwrap();
                assert_eq!(grown.len(), string.len().max(last + 1));
                let (in_byte, expected) = ((size_bits - 1) % 8, string.get(last).copied().unwrap_or(0));
                let mask = if order == BitOrder::Msb { 0x80 >> in_byte } else { 1 << in_byte };
                assert_eq!(grown[last], expected | mask);
            }
        }
    }
}
