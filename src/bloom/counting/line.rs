//! A line of counters: four bits for every position. Part of the format, as docs/formats.md says it in words.
//!
//! A counter is 0 to 8. Its first bit says whether it is above 0, the other three, least significant first, hold a number
//! that is added to that 1; 8 is full, and stays. The bits lie apart, in planes: for every line of 512 positions there are
//! four lines of 64 bytes side by side, the first with the first bit of every counter. So a check reads what it would read
//! of a filter of bits.

/// Bits of a counter.
pub const COUNTER_BITS: u64 = 4;
/// The count from which on a counter counts neither up nor down: how often its position was set is not known any more.
pub const COUNT_FULL: u32 = 8;
/// Positions of a line; an array has whole lines.
pub const LINE_POSITIONS: u64 = 512;
/// Words of a line.
pub(super) const LINE_WORDS: usize = 8;
/// Planes of a line: one for each bit of a counter.
pub(super) const PLANES: usize = 4;
const _: () = assert!(PLANES as u64 == COUNTER_BITS && LINE_WORDS as u64 * 64 == LINE_POSITIONS);
/// Words of all planes of a line.
pub(super) const PLANES_WORDS: usize = LINE_WORDS * PLANES;
/// Bytes of all planes of a line, between which no dump and no snapshot is cut.
pub(super) const PLANES_BYTES: usize = PLANES_WORDS * 8;

/// The four planes of a line, one after another.
pub(super) type Planes = [u64; PLANES_WORDS];
/// The first plane of a line: a bit for every counter that is above 0.
pub(super) type FirstPlane = [u64; LINE_WORDS];

/// Returns the line of a position, and within each of its planes the word and the bit.
#[inline(always)]
pub(super) fn place(position: u64) -> (usize, usize, u64) {
    let line = usize::try_from(position / LINE_POSITIONS).unwrap_or(usize::MAX);
    (line, (position / 64) as usize % LINE_WORDS, 1 << (position % 64))
}

/// Returns the first plane of a line.
#[inline(always)]
pub(super) fn first_plane(planes: &Planes) -> Option<&FirstPlane> {
    planes.first_chunk()
}

/// Counts one counter of a line up, unless it is full. Returns whether it was 0.
#[inline(always)]
pub(super) fn count_up(planes: &mut Planes, word: usize, mask: u64) -> bool {
    let [first, ones, twos, fours] = planes.as_chunks_mut::<LINE_WORDS>().0 else { return false };
    let (Some(first), Some(ones), Some(twos), Some(fours)) =
        (first.get_mut(word), ones.get_mut(word), twos.get_mut(word), fours.get_mut(word))
    else {
        return false;
    };
    let seen = *first & mask;
    *first |= mask;
    // Most counters are 0 or 1: the lines of the other planes, which may be far, are seldom needed.
    if *ones & mask == 0 {
        *ones |= seen;
    } else if *twos & mask == 0 {
        *ones ^= mask;
        *twos ^= mask;
    } else if *fours & mask == 0 {
        *ones ^= mask;
        *twos ^= mask;
        *fours ^= mask;
    }
    seen == 0
}

/// Counts one counter of a line down, unless it is full. Returns whether it is 0 now; nothing where it was 0 before.
#[inline(always)]
pub(super) fn count_down(planes: &mut Planes, word: usize, mask: u64) -> Option<bool> {
    let [first, ones, twos, fours] = planes.as_chunks_mut::<LINE_WORDS>().0 else { return None };
    let (first, ones, twos, fours) =
        (first.get_mut(word)?, ones.get_mut(word)?, twos.get_mut(word)?, fours.get_mut(word)?);
    if *first & mask == 0 {
        return None;
    }
    let (any, all) = (*ones | *twos | *fours, *ones & *twos & *fours);
    let becomes_clear = mask & !any;
    // A borrow runs from each plane to the next where the bit was 0 and is 1 now.
    let borrow = mask & any & !all;
    *first ^= becomes_clear;
    // Most counters are 1, and a line that is stored to must be written back though nothing in it has changed.
    if borrow != 0 {
        *ones ^= borrow;
        let borrow = borrow & *ones;
        *twos ^= borrow;
        *fours ^= borrow & *twos;
    }
    Some(becomes_clear != 0)
}

/// Returns how many counters of a line are above 0.
pub(super) fn count_ones(words: &FirstPlane) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Returns the words of a line's planes as they are saved.
pub(super) fn words_of(bytes: &[u8; PLANES_BYTES]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Returns whether a line's planes are those of counters: where the first has a clear bit, the others have too.
pub(super) fn are_counters(bytes: &[u8; PLANES_BYTES]) -> bool {
    let (first, others) = bytes.split_at(LINE_WORDS * 8);
    others.chunks(first.len()).all(|plane| plane.iter().zip(first).all(|(other, first)| other & !first == 0))
}
