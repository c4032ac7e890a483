//! Makes the seeds, the first inputs of fuzzing: filters of every kind, filters that other modules wrote, and random
//! choices.

use std::collections::HashMap;

use everbloom_command::COMMANDS;
use everbloom_filter::{Filter, Format, UnknownMemory};
use everbloom_format::DataType;
use everbloom_format::carried::CarriedType;
use everbloom_format::chunks::Rewritten;
use everbloom_format::filter::rewrite;

use crate::support::fuzz::TARGETS;
use crate::support::fuzz::snapshot::write;
use crate::support::rdb::Payload;
use crate::support::saved::{chunks, saved};
use crate::support::server::Server;
use crate::support::{Field, Random, Record, fixtures};

/// The length of the longest seed. Longer seeds would make fuzzing slow.
const SEED_MAX_BYTES: usize = 32 << 10;

/// Commands that create one filter of every kind.
const FILTERS: [&[&str]; 17] = [
    &["BF.MADD k a b c d e f"],
    &["BF.INSERT k CAPACITY 3 ITEMS a b c d e f"],
    &["BF.INSERT k CAPACITY 3 COUNTING ITEMS a b c d a b"],
    &["BF.INSERT k CAPACITY 3 KEYED ITEMS a b c d"],
    &["BF.INSERT k CAPACITY 3 KEYED COUNTING ITEMS a b c d a b"],
    &["BF.INSERT k CAPACITY 3 KEYED WINDOW 14 ITEMS a b c d e f g"],
    &["BF.INSERT k CAPACITY 3 NONSCALING COUNTING ITEMS a b c"],
    &["BF.INSERT k UNRESERVED KEYED ITEMS a b c d e f"],
    &["BF.INSERT k CAPACITY 3 WINDOW 14 ITEMS a b c d e f g h i j k l m n"],
    &["BF.RESERVE k 0.01 600000 WINDOW 14", "BF.MADD k a b c"],
    &["BF.INSERT k CAPACITY 3 NONSCALING SATURATE ITEMS a b c d"],
    &["BF.INSERT k CAPACITY 3 FORMAT valkey-bloom ITEMS a b c d e f g h"],
    &["BF.INSERT k CAPACITY 3 FORMAT redisbloom ITEMS a b c d e f g h"],
    &[
        "BF.IMPORT k SOURCE users SCHEME murmur3-salted BITS 64 HASHES 3 CAPACITY 9",
        "BF.MADD k a b c d e f g h i j k",
    ],
    &[
        "BF.INSERT r CAPACITY 3 FORMAT redisbloom ITEMS a b c",
        "BF.INSERT v CAPACITY 3 FORMAT valkey-bloom ITEMS a b c",
        "BF.INSERT y KEYED CAPACITY 3 ITEMS a b c",
        "BF.IMPORT i SOURCE users SCHEME murmur3-salted BITS 64 HASHES 3 CAPACITY 9",
        "BF.INSERT k CAPACITY 3 ITEMS x y",
        "BF.MERGE k r v y i FORCE",
    ],
    &[
        "BF.INSERT s ERROR 0.001 CAPACITY 3 ITEMS a b c d",
        "BF.INSERT k CAPACITY 5 ITEMS x y",
        "BF.MERGE k s FORCE",
    ],
    &["BF.RESERVE k 0.01 2000000", "BF.MADD k a b c"],
];

/// The modules whose recorded filters are seeds: the beginnings of the names of the recordings.
const PRODUCERS: [&str; 3] = ["redisbloom-1.1.1", "redisbloom-8.10", "valkey-bloom-1.0"];

/// Returns the seeds, by the names of the targets.
pub(crate) fn seeds() -> HashMap<&'static str, Vec<Vec<u8>>> {
    let mut seeds = Seeds(TARGETS.iter().map(|(name, _)| (*name, Vec::new())).collect());
    for lines in FILTERS {
        let mut server = Server::new();
        lines.iter().for_each(|line| drop(server.run(line)));
        seeds.of_filter(server.take("k"));
    }
    for case in PRODUCERS.into_iter().flat_map(fixtures::cases) {
        let payload = Payload::read(&case.payload);
        seeds.of_snapshot(&payload.type_name, payload.encoding_version, &payload.record);
        seeds.of_chunks(&case.chunks(), 0);
        if let Some(blob) = case.blob() {
            seeds.put("blob", [&[4][..], &blob].concat());
        }
    }
    let cuckoos = fixtures::cuckoo_cases().into_iter().map(|(_, payload)| (0, 4, payload));
    let carried = fixtures::carried_cases().into_iter().map(|case| {
        let number = CarriedType::ALL.iter().position(|known| known.name() == case.type_name);
        (3, number.unwrap() as u8, case.payload)
    });
    for (mode, choice, payload) in cuckoos.chain(carried) {
        let mut seed = vec![2, mode, choice];
        // The version of a carried value.
        seed.extend((mode == 3).then_some(0));
        write(&Payload::read(&payload).record, &mut seed);
        seeds.put("cuckoo", seed);
    }
    let mut random = Random(16);
    for (name, length) in [
        ("commands", 600),
        ("cuckoo", 600),
        ("merges", 400),
        ("grammar", 200),
        ("client", 300),
        ("packed", 900),
        ("windows", 700),
        ("table", 900),
    ] {
        for _ in 0..40 {
            let bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            seeds.put(name, bytes);
        }
    }
    for command in 0..COMMANDS.len() {
        seeds.put("grammar", vec![command as u8, 3, 0x90, 0, 0xb0, 1, 0xb0, 2]);
    }
    // MURMUR128_MITZ_64 and MURMUR128_MITZ_32 with five hashes and two longs.
    for strategy in [0, 1] {
        seeds.put("client", [&[2, 3, strategy, 5][..], &[0xa5; 16]].concat());
    }
    seeds.0
}

/// Returns the choice of a limit that allows an array of `size_bytes`; `None` for a large array, which would be slow.
fn limit(size_bytes: usize) -> Option<u8> {
    let limits = [(0, 60 << 10), (2, 250 << 10), (4, 1000 << 10), (6, 6000 << 10)];
    limits.into_iter().find(|(_, most)| size_bytes <= *most).map(|(choice, _)| choice)
}

struct Seeds(HashMap<&'static str, Vec<Vec<u8>>>);

impl Seeds {
    fn put(&mut self, target: &str, seed: Vec<u8>) {
        if seed.len() <= SEED_MAX_BYTES {
            self.0.get_mut(target).unwrap().push(seed);
        }
    }

    fn of_filter(&mut self, filter: Filter) {
        let record = saved(&filter);
        let DataType { name, encoding_version } = DataType::of(filter.format());
        self.of_snapshot(name, encoding_version, &record);
        self.of_chunks(&chunks(&filter, 5), 5);
        let blob = &mut |command: Rewritten<'_>| {
            if let Rewritten::Blob(blob) = command {
                self.put("blob", [&[4][..], blob].concat());
            }
        };
        rewrite(&filter, UnknownMemory, 1, blob).unwrap();
    }

    /// Adds the seeds for `snapshot`: the unchanged filter, and for our own headers also the filter with forged counts.
    fn of_snapshot(&mut self, type_name: &str, version: i32, record: &Record) {
        let all = Format::ALL.map(|format| DataType::of(format).name);
        let format = all.iter().position(|name| *name == type_name).unwrap() as u8;
        let strings =
            record.0.iter().map(|field| if let Field::Bytes(bytes) = field { bytes.len() } else { 0 });
        let Some(limit) = limit(strings.sum()) else { return };
        let mut seed = vec![0, limit, format, u8::try_from(version).unwrap()];
        write(record, &mut seed);
        self.put("snapshot", seed);
        if let (0, Some(Field::Bytes(header))) = (format, record.0.first()) {
            let kind = header[6].wrapping_sub(1);
            let body = &header[7..];
            let mut forged = [&[8, limit, kind][..], &(body.len() as u16).to_le_bytes(), body].concat();
            for number in 1..record.0.len() as u8 {
                forged.extend([&[1, number][..], b"\x04\x00\x64\x01\x80\xff\x10\x33\x08"].concat());
            }
            self.put("snapshot", forged);
        }
    }

    /// Adds the seeds for `chunks`: the header, unchanged or with a forged checksum, and chunks with forged checksums.
    fn of_chunks(&mut self, dump: &[(u64, Vec<u8>)], id: u8) {
        let Some(((_, header), chunks)) = dump.split_first() else { return };
        let is_ours = header.starts_with(b"evbl");
        let forms: &[(u8, &[u8])] = if is_ours { &[(6, &header[7..]), (0, header)] } else { &[(0, header)] };
        for (form, bytes) in forms {
            let kind = if is_ours { header[6].wrapping_sub(1) } else { 0 };
            let Some(limit) = limit(chunks.iter().map(|(_, chunk)| chunk.len()).sum()) else { return };
            // Removes the trailer of a header if the target forges it.
            let trailer_bytes = if *form == 6 { 24 } else { 0 };
            let bytes = &bytes[..bytes.len().saturating_sub(trailer_bytes)];
            let mut seed = vec![limit, *form, kind, id];
            seed.extend((bytes.len() as u16).to_le_bytes());
            seed.extend(bytes);
            let mut position = 0u32;
            for (_, chunk) in chunks {
                let data = &chunk[..chunk.len().min(64)];
                seed.push(0);
                seed.extend(position.to_le_bytes());
                seed.extend((data.len() as u16).to_le_bytes());
                seed.extend(data);
                position = position.saturating_add(chunk.len() as u32);
            }
            self.put("chunks", seed);
        }
    }
}
