//! Splits text into lines. Finds the newlines of 64 bytes at a time.
//!
//! Most lines are short, and a search per line (memchr) takes longer to start than to search. Each search also
//! depends on the end of the one before. The newlines of a block are found independently of the blocks before it.

/// Number of bytes whose newlines are found at once.
const BLOCK_BYTES: usize = 64;

/// The remaining lines of a text, without their newlines. The last line may have no newline.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    data: &'a [u8],
    /// The start of the next line.
    start: usize,
    /// The start of the current block.
    block: usize,
    /// The remaining newlines of the current block, one bit each.
    ends: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, start: 0, block: 0, ends: newlines_from(data, 0) }
    }

    /// Writes the next lines to the front of `places`. Returns their number, which is smaller than that of `places`
    /// only at the end.
    pub(super) fn next_few(&mut self, places: &mut [&'a [u8]]) -> usize {
        let Self { data, mut start, mut block, mut ends } = *self;
        let count = places.len();
        let mut places = places.iter_mut();
        'fill: loop {
            while ends != 0 {
                let Some(place) = places.next() else { break 'fill };
                let end = block.wrapping_add(ends.trailing_zeros() as usize);
                ends &= ends.wrapping_sub(1);
                let Some(line) = data.get(start..end) else { break 'fill };
                *place = line;
                start = end.wrapping_add(1);
            }
            if data.len().saturating_sub(block) > BLOCK_BYTES {
                block = block.wrapping_add(BLOCK_BYTES);
                ends = newlines_from(data, block);
                continue;
            }
            // The last line, if it has no newline and was not read yet.
            if let Some(line) = data.get(start..).filter(|line| !line.is_empty())
                && let Some(place) = places.next()
            {
                *place = line;
                start = data.len();
            }
            break;
        }
        *self = Self { data, start, block, ends };
        count.saturating_sub(places.len())
    }
}

/// Returns the newlines of the block at `start`, the lowest bit for the first byte. There are none after the end of
/// the data.
#[inline(always)]
fn newlines_from(data: &[u8], start: usize) -> u64 {
    let rest = data.get(start..).unwrap_or_default();
    match rest.first_chunk() {
        Some(block) => newlines(block),
        None => newlines_of_few(rest),
    }
}

/// Returns the newlines of less than a block.
#[cold]
#[inline(never)]
fn newlines_of_few(bytes: &[u8]) -> u64 {
    let mut block = [0; BLOCK_BYTES];
    block.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    newlines(&block)
}

/// Returns the newlines of a block, the lowest bit for the first byte.
///
/// Written so that compilers vectorize it. Each byte becomes 1 for a newline or 0. Each row of eight bytes is shifted
/// to a separate bit, and the rows are combined into one word: the transposed bit matrix of the result.
#[inline(always)]
fn newlines(block: &[u8; BLOCK_BYTES]) -> u64 {
    let found = block.map(|byte| u8::from(byte == b'\n'));
    let rows = found.as_chunks().0.iter().zip(0..);
    transposed(rows.fold(0, |square, (row, bit)| square | u64::from_le_bytes(*row) << bit))
}

/// Transposes a bit matrix: bit i of byte j becomes bit j of byte i (Warren, "Hacker's Delight", 7-3).
#[inline(always)]
const fn transposed(mut square: u64) -> u64 {
    let mut swap = (square ^ square >> 7) & 0x00aa_00aa_00aa_00aa;
    square ^= swap ^ swap << 7;
    swap = (square ^ square >> 14) & 0x0000_cccc_0000_cccc;
    square ^= swap ^ swap << 14;
    swap = (square ^ square >> 28) & 0x0000_0000_f0f0_f0f0;
    square ^ swap ^ swap << 28
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_newline_has_its_bit() {
        for place in 0..BLOCK_BYTES {
            let mut block = [b'\n' ^ 0x80; BLOCK_BYTES];
            block[place] = b'\n';
            assert_eq!(newlines(&block), 1 << place);
            block[BLOCK_BYTES - 1 - place] = b'\n';
            assert_eq!(newlines(&block), 1 << place | 1 << (BLOCK_BYTES - 1 - place));
        }
    }

    #[test]
    fn lines_end_at_newlines_in_blocks_of_any_length() {
        for length in 0..300 {
            for step in [1, 2, 3, 31, 63, 64, 65, 130] {
                let text: Vec<u8> =
                    (0..length).map(|place| if place % step == step - 1 { b'\n' } else { b'x' }).collect();
                let whole = text.strip_suffix(b"\n").unwrap_or(&text);
                let expected: Vec<&[u8]> =
                    whole.split(|byte| *byte == b'\n').take(if text.is_empty() { 0 } else { 300 }).collect();
                let (mut lines, mut places, mut read) = (Lines::new(&text), [&[][..]; 7], Vec::new());
                loop {
                    let few = lines.next_few(&mut places);
                    read.extend_from_slice(&places[..few]);
                    if few < places.len() {
                        break;
                    }
                }
                assert_eq!(read, expected, "{length} bytes, a newline every {step}");
                assert_eq!(lines.next_few(&mut places), 0);
            }
        }
    }
}
