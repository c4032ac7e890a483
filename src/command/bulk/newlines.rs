//! Cutting text into its lines: the newlines of 64 bytes at a time.
//!
//! Most lines are shorter than what a search for the next newline takes to begin. And such a search begins where the one
//! before has ended, while the newlines of the next bytes are found whatever is in these.

/// Bytes whose newlines are found at once.
const BLOCK_BYTES: usize = 64;

/// The lines of a text that are still to be told, without their newlines; the last may lack it.
#[derive(Clone, Debug)]
pub(super) struct Lines<'a> {
    data: &'a [u8],
    /// Where the next line begins.
    start: usize,
    /// Where the block begins whose newlines are known.
    block: usize,
    /// Its newlines that are still to be told, a bit each.
    ends: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, start: 0, block: 0, ends: newlines_from(data, 0) }
    }

    /// Writes where the next lines are to the front of `room`; answers how many. Fewer than there is room for
    /// only where no more follow.
    pub(super) fn next_few(&mut self, room: &mut [&'a [u8]]) -> usize {
        let Self { data, mut start, mut block, mut ends } = *self;
        let count = room.len();
        let mut places = room.iter_mut();
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
            // The last line, if it lacks its newline and was not told yet.
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

/// Where the newlines of the block at `start` are, the lowest bit for the first byte; there are none beyond the data.
#[inline(always)]
fn newlines_from(data: &[u8], start: usize) -> u64 {
    let rest = data.get(start..).unwrap_or_default();
    match rest.first_chunk() {
        Some(block) => newlines(block),
        None => newlines_of_few(rest),
    }
}

/// Where the newlines of less than a block are.
#[cold]
#[inline(never)]
fn newlines_of_few(bytes: &[u8]) -> u64 {
    let mut block = [0; BLOCK_BYTES];
    block.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    newlines(&block)
}

/// Where the newlines are, the lowest bit for the first byte.
///
/// In words that compilers make vector instructions of: a byte that is 1 for each newline, then eight rows of eight of
/// them laid over one another, each row in a bit of its own, which leaves a square with rows and columns exchanged.
#[inline(always)]
fn newlines(block: &[u8; BLOCK_BYTES]) -> u64 {
    let found = block.map(|byte| u8::from(byte == b'\n'));
    let rows = found.as_chunks().0.iter().zip(0..);
    transposed(rows.fold(0, |square, (row, bit)| square | u64::from_le_bytes(*row) << bit))
}

/// Bit i of byte j becomes bit j of byte i (Warren, "Hacker's Delight", 7-3).
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
    fn lines_are_those_between_newlines_wherever_blocks_end() {
        for length in 0..300 {
            for step in [1, 2, 3, 31, 63, 64, 65, 130] {
                let text: Vec<u8> =
                    (0..length).map(|place| if place % step == step - 1 { b'\n' } else { b'x' }).collect();
                let whole = text.strip_suffix(b"\n").unwrap_or(&text);
                let expected: Vec<&[u8]> =
                    whole.split(|byte| *byte == b'\n').take(if text.is_empty() { 0 } else { 300 }).collect();
                let (mut lines, mut room, mut told) = (Lines::new(&text), [&[][..]; 7], Vec::new());
                loop {
                    let few = lines.next_few(&mut room);
                    told.extend_from_slice(&room[..few]);
                    if few < room.len() {
                        break;
                    }
                }
                assert_eq!(told, expected, "{length} bytes, a newline every {step}");
                assert_eq!(lines.next_few(&mut room), 0);
            }
        }
    }
}
