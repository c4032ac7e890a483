//! Reads the reply of DUMP for a key of a module's data type: what a server does before and around the module.

use super::{Field, Record};

/// The data type, the encoding version and the fields.
pub struct Payload {
    pub type_name: String,
    pub encoding_version: i32,
    pub record: Record,
}

const MODULE_VALUE: u8 = 7;
const END: u64 = 0;
const UNSIGNED: u64 = 2;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;
/// Version of the snapshot format and checksum at the end.
const FOOTER_BYTES: usize = 10;
/// The characters of a data type's name, six bits each.
const NAME_LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Payload {
    /// Reads a payload; one that is not as a server writes it fails the test.
    pub fn read(payload: &[u8]) -> Self {
        let mut cursor = Cursor(&payload[..payload.len() - FOOTER_BYTES]);
        assert_eq!(cursor.byte(), MODULE_VALUE);
        let id = cursor.number();
        let letters = (0..9).map(|i| NAME_LETTERS[(id >> (58 - 6 * i)) as usize & 63]);
        let mut record = Record::default();
        loop {
            record.0.push(match cursor.number() {
                UNSIGNED => Field::Unsigned(cursor.number()),
                DOUBLE => Field::Double(f64::from_le_bytes(cursor.take(8).try_into().unwrap())),
                STRING => Field::Bytes(cursor.string()),
                END => break,
                other => panic!("opcode {other}"),
            });
        }
        assert!(cursor.0.is_empty());
        let type_name = String::from_utf8(letters.collect()).unwrap();
        Self { type_name, encoding_version: (id & 1023) as i32, record }
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn number(&mut self) -> u64 {
        let first = self.byte();
        match first {
            0..0x40 => first.into(),
            0x40..0x80 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()),
            0x80 => self.long_number(4),
            0x81 => self.long_number(8),
            other => panic!("length {other:#x}"),
        }
    }

    /// Most significant byte first.
    fn long_number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn string(&mut self) -> Vec<u8> {
        match self.0[0] {
            // A short string that spells an integer.
            0xc0..=0xc2 => {
                let width = 1 << (self.byte() & 3);
                let mut bytes = [0; 8];
                bytes[..width].copy_from_slice(self.take(width));
                let unused_bits = 64 - 8 * width as u32;
                (i64::from_le_bytes(bytes) << unused_bits >> unused_bits).to_string().into_bytes()
            }
            0xc3 => {
                self.byte();
                let (compressed, length) = (self.number() as usize, self.number() as usize);
                lzf_rust::decompress_into_vec(self.take(compressed), length).unwrap()
            }
            _ => {
                let length = self.number() as usize;
                self.take(length).to_vec()
            }
        }
    }
}
