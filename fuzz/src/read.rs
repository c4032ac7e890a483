//! An independent reader of segments, written from docs/formats.md without any code of the library.

use everbloom_filter::table::Table;

use super::forge::TableForm;

/// A segment whose runs were read.
#[derive(Debug)]
pub struct ReadSegment {
    pub number: u64,
    pub depth: u32,
    pub blocks_log: u32,
    pub entries: Vec<ReadEntry>,
    /// The number of slots of the runs.
    pub slots: usize,
}

/// An entry of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadEntry {
    pub block: u32,
    pub bucket: u32,
    /// The remainder with the set bit above it.
    pub value: u64,
    /// How many splits have copied the entry.
    pub copies: u32,
    /// How often the item was added; 1 if entries are not counted.
    pub count: u64,
    /// When the item was added; 0 if entries are not timed.
    pub generation: u64,
}

/// Returns `count` bits of little-endian words from `start` on.
fn bits(words: &[u64], start: usize, count: usize) -> u64 {
    (0..count).fold(0, |value, bit| value | (words[(start + bit) / 64] >> ((start + bit) % 64) & 1) << bit)
}

impl ReadEntry {
    /// Returns the length of the remainder.
    pub fn bits(&self) -> u32 {
        if self.value == 0 { 0 } else { self.value.ilog2() }
    }

    /// Returns the low bits of the hash that the entry knows in a segment, and their number. Copies of an entry know the
    /// bits of their own address.
    pub fn known(&self, segment: &ReadSegment) -> (u128, u32) {
        let address = u128::from(segment.number) | u128::from(self.block) << segment.depth;
        let address_bits = segment.depth + segment.blocks_log;
        let remainder = u128::from(self.value) & ((1 << self.bits()) - 1);
        (address | remainder << address_bits, address_bits + self.bits())
    }
}

impl ReadSegment {
    /// Reads a segment of a table of this form.
    pub fn read(
        form: &TableForm,
        number: u64,
        (depth, blocks_log): (u32, u32),
        words: &[u64],
        stamp: u64,
    ) -> Self {
        let mut read = Self { number, depth, blocks_log, entries: Vec::new(), slots: 0 };
        if words.is_empty() {
            return read;
        }
        let (width, blocks) = (form.width(depth, blocks_log) as usize, 1usize << blocks_log);
        let entry_bits = width - if form.is_timed() { 4 } else { 0 };
        let capacity = ((words.len() / blocks * 64 - 80) / (width + 1)).min(112);
        let block_bits = (80 + capacity * (width + 1)).div_ceil(64).max(3) * 64;
        assert!(blocks * block_bits <= words.len() * 64);
        for block in 0..blocks {
            let start = block * block_bits;
            let mut slot = block * capacity + bits(words, start + 64, 16) as usize;
            for bucket in (0..64).filter(|bucket| bits(words, start + bucket, 1) == 1) {
                let mut run = Vec::new();
                loop {
                    let (at, index) = (slot / capacity % blocks * block_bits, slot % capacity);
                    run.push(bits(words, at + 80 + capacity + index * width, width));
                    slot += 1;
                    if bits(words, at + 80 + index, 1) == 1 {
                        break;
                    }
                }
                read.slots += run.len();
                let mut rest = run.as_slice();
                while let Some((first, mut after)) = rest.split_first() {
                    let (mut count, mut copies, mut generation) = (1, 0, 0);
                    let value = first & ((1 << entry_bits) - 1);
                    if form.is_counted() {
                        let (mut number, mut digits) = (0u64, 0);
                        while let [0, digit, others @ ..] = after {
                            number |= digit << (12 * digits);
                            digits += 1;
                            after = others;
                        }
                        if value == 1 {
                            (copies, number) = ((number % 64) as u32, number / 64);
                        }
                        count = number + 1;
                    } else if form.is_timed() {
                        let newest = stamp + 1;
                        let code = first >> entry_bits;
                        generation = (0..16).map(|age| newest - age).find(|at| at % 16 == code).unwrap();
                    }
                    read.entries.push(ReadEntry {
                        block: block as u32,
                        bucket: bucket as u32,
                        value,
                        copies,
                        count,
                        generation,
                    });
                    rest = after;
                }
            }
        }
        read
    }
}

/// Reads all segments of a table that have entries.
pub fn segments_of(table: &Table) -> Vec<ReadSegment> {
    let form = TableForm::of_table(table);
    let read = |(number, words, stamp): (usize, &[u64], u64)| {
        let depth = form.depth_of(number as u64);
        ReadSegment::read(&form, number as u64, (depth, form.blocks_log), words, stamp)
    };
    table.segments().map(read).collect()
}
