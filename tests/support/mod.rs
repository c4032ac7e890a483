//! What several tests share: filters of every kind, snapshots in memory, random numbers.
#![allow(dead_code, missing_docs, reason = "every test uses a part of it")]

pub(crate) mod dialogues;
pub mod make;
pub mod memory;
pub mod rdb;
pub mod saved;
pub mod server;

use everbloom::format::{DecodeError, Sink, Source};

/// One field of a record.
#[derive(Clone, Debug)]
pub enum Field {
    Unsigned(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

impl PartialEq for Field {
    /// Bit for bit: NaN equals itself.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unsigned(a), Self::Unsigned(b)) => a == b,
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            _ => false,
        }
    }
}

/// What an encoding wrote, field by field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record(pub Vec<Field>);

impl Record {
    /// Gives the fields back one by one.
    pub fn reader(&self) -> Reader {
        Reader(self.0.clone().into_iter())
    }
}

impl Sink for Record {
    fn unsigned(&mut self, value: u64) {
        self.0.push(Field::Unsigned(value));
    }

    fn double(&mut self, value: f64) {
        self.0.push(Field::Double(value));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(Field::Bytes(bytes.to_vec()));
    }
}

/// Reads a record and refuses a field of another kind, as servers do.
pub struct Reader(std::vec::IntoIter<Field>);

impl Reader {
    /// Whether every field has been read.
    pub fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }
}

impl Source for Reader {
    type Bytes = Vec<u8>;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        match self.0.next() {
            Some(Field::Unsigned(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.0.next() {
            Some(Field::Double(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self.0.next() {
            Some(Field::Bytes(bytes)) => Ok(bytes),
            _ => Err(DecodeError::Truncated),
        }
    }
}

/// Random numbers that are the same in every run: SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// One of `choices`.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A number between two, each magnitude as likely as another.
    pub fn magnitude(&mut self, from: f64, to: f64) -> f64 {
        let share = self.next() as f64 / u64::MAX as f64;
        (from.ln() + share * (to.ln() - from.ln())).exp()
    }
}
