//! bincode writes our records. This file has a codec of some 40 lines that writes the same bytes, so that bincode, which is no
//! longer maintained, can be replaced by one change of src/format/stream.rs and of the derives of the records.

use std::fs;
use std::path::{Path, PathBuf};

use bincode::Options;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::support::{ROOT, Random};

/// A value of fixed size in bytes: numbers in little-endian order, and the fields of a record one after another.
trait Fixed: Sized {
    fn append(&self, bytes: &mut Vec<u8>);
    fn read(rest: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Fixed for $number {
            fn append(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn read(rest: &mut &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(Fixed::read(rest)?))
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 i64 f64);

impl<const BYTES: usize> Fixed for [u8; BYTES] {
    fn append(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }
    fn read(rest: &mut &[u8]) -> Option<Self> {
        let (bytes, after) = rest.split_first_chunk()?;
        *rest = after;
        Some(*bytes)
    }
}

macro_rules! tuples {
    ($($first:ident $($others:ident)*;)*) => {$(
        #[allow(non_snake_case, reason = "the names of the types are those of the values")]
        impl<$first: Fixed, $($others: Fixed),*> Fixed for ($first, $($others,)*) {
            fn append(&self, bytes: &mut Vec<u8>) {
                let ($first, $($others,)*) = self;
                $first.append(bytes);
                $($others.append(bytes);)*
            }
            fn read(rest: &mut &[u8]) -> Option<Self> {
                Some(($first::read(rest)?, $($others::read(rest)?,)*))
            }
        }
    )*};
}
tuples!(A B; A B C D; A B C D E F; A B C D E F G; A B C D E F G H; A B C D E F G H I; A B C D E F G H I J;
    A B C D E F G H I J K L;);

/// The records: the file, the name, and the types of the fields. bincode writes a struct like a tuple of its fields.
macro_rules! for_each_record {
    ($call:ident) => {
        $call! {
            "contents.rs" SegmentFields(u32, u32, u8, u8, [u8; 6], u64);
            "record/layer.rs" LayerFields(u8, u8, u8, u16, u8, [u8; 2], u64, u64, u64, u64);
            "record/policy.rs" PolicyFields([u8; 4], u16, u8, u8, u8, u8, u16, u32, f64, u64, u64, u64);
            "record/table.rs" TableFields(u8, u8, u8, u8, u8, [u8; 11], u64, u64, u64, u64);
            "redisbloom/cuckoo.rs" HeaderFields(u64, u64, u64, u64, u16, u16, u16);
            "redisbloom/header.rs" ChainHeader(u64, u32, u32, u32);
            "redisbloom/header.rs" LayerHeader(u64, u64, u64, f64, f64, u32, u64, u8);
            "valkeybloom/blob.rs" Counts(i64, i64);
            "valkeybloom/blob.rs" Head(u8, u32, f64, f64, u8, u64);
            "valkeybloom/layers.rs" SliceHead(u8, u64, u32, [u8; 32]);
        }
    };
}

fn format_dir() -> PathBuf {
    Path::new(ROOT).join("src/format")
}

/// Returns the types of the fields of a record in the source.
fn types_in_source(file: &str, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format_dir().join(file)).unwrap().replace("SEED_BYTES", "32");
    if let Some((_, fields)) = text.split_once(&format!("type {name} = (")) {
        let (fields, _) = fields.split_once(");").unwrap();
        return fields.split(", ").map(str::to_owned).collect();
    }
    let (_, fields) = text.split_once(&format!("struct {name} {{")).unwrap();
    let (fields, _) = fields.split_once("\n}").unwrap();
    let fields = fields.lines().filter(|line| !line.trim().is_empty() && !line.contains("//"));
    fields.map(|line| line.split_once(": ").unwrap().1.trim_end_matches(',').to_owned()).collect()
}

fn options() -> impl Options {
    bincode::DefaultOptions::new().with_fixint_encoding().with_little_endian().allow_trailing_bytes()
}

/// Asserts that both codecs read the same from random bytes of any length, and write the same.
fn assert_same_bytes<T: Fixed + Serialize + DeserializeOwned>(name: &str, random: &mut Random) {
    for _ in 0..100 {
        let bytes: Vec<u8> = (0..100).map(|_| random.next() as u8).collect();
        for length in 0..=bytes.len() {
            let (mut ours, mut theirs) = (&bytes[..length], &bytes[..length]);
            let (our, their) = (T::read(&mut ours), options().deserialize_from::<_, T>(&mut theirs).ok());
            assert_eq!(our.is_some(), their.is_some(), "{name}, {length}");
            let (Some(our), Some(their)) = (our, their) else { continue };
            assert_eq!(ours, theirs, "{name}, {length}");
            let mut written = Vec::new();
            our.append(&mut written);
            assert_eq!(written, bytes[..length - ours.len()], "{name}, {length}");
            assert_eq!(options().serialize(&their).unwrap(), written, "{name}, {length}");
        }
    }
}

macro_rules! check {
    ($($file:literal $name:ident($($field:ty),*);)*) => {
        #[test]
        fn a_codec_of_forty_lines_has_the_same_bytes() {
            let mut random = Random(0x62_696e_636f_6465);
            $(
                let types = [$(stringify!($field)),*];
                assert_eq!(types_in_source($file, stringify!($name)), types, "{}", stringify!($name));
                assert_same_bytes::<($($field,)*)>(stringify!($name), &mut random);
            )*
            // No other file derives the encoding of a record.
            let files: std::collections::BTreeSet<&str> = [$($file),*].into();
            for file in sources(&format_dir()) {
                let name = file.strip_prefix(format_dir()).unwrap().to_str().unwrap();
                let derives = fs::read_to_string(&file).unwrap().contains("Deserialize)]");
                assert!(!derives || files.contains(name), "{name}");
            }
        }
    };
}
for_each_record!(check);

/// Returns all source files in a directory and below.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn one_file_uses_bincode() {
    let source = Path::new(ROOT).join("src");
    let users = sources(&source).into_iter().filter(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("bincode"))
    });
    assert_eq!(users.collect::<Vec<_>>(), [source.join("format/stream.rs")]);
}
