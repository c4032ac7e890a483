//! A cuckoo filter that is accepted in one encoding is accepted in every other one, and is the same there: snapshots, chunks,
//! and rewritten append-only files.

use everbloom_command::Settings;
use everbloom_filter::Format;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_format::chunks::Rewritten;
use everbloom_format::redisbloom::cuckoo::{load, rewrite, save};

use crate::support::Random;
use crate::support::rdb::{Field, Payload, Record};
use crate::support::server::Server;

fn saved(filter: &CuckooFilter) -> Record {
    let mut record = Record::default();
    save(filter, &mut record);
    record
}

/// Returns the filter after the commands of a rewritten append-only file, run as a server that loads the file does.
fn rewritten(filter: &CuckooFilter, context: &str) -> CuckooFilter {
    let mut server = Server::new();
    server.is_replicated = true;
    rewrite(filter, &mut |command| match command {
        Rewritten::Payload(data) => {
            let payload = Payload::read(data);
            assert_eq!(payload.type_name.as_str(), "MBbloomCF");
            let loaded = load(payload.encoding_version, &mut payload.record.reader(), &u64::MAX);
            let loaded = loaded.unwrap_or_else(|error| panic!("{context}: {error}"));
            server.cuckoos.insert(b"k".to_vec(), loaded);
        }
        Rewritten::CuckooChunk { iterator, data } => {
            let iterator = iterator.to_string();
            let reply = server.call(&[b"CF.LOADCHUNK", b"k", iterator.as_bytes(), data]);
            assert_eq!((&reply[..], server.has_ended), ("+OK", false), "{context}: chunk {iterator}");
        }
        Rewritten::Chunk { .. } | Rewritten::Blob(_) => panic!("not of a cuckoo filter"),
    })
    .unwrap();
    server.cuckoos.remove(&b"k"[..]).unwrap()
}

/// Copies the filter under `k` to `copy` by chunks. Returns whether it has any.
fn dumped(server: &mut Server, context: &str) -> bool {
    let mut iterator = "0".to_owned();
    server.cuckoos.remove(&b"copy"[..]);
    loop {
        let reply = server.call(&[b"CF.SCANDUMP", b"k", iterator.as_bytes()]);
        if reply.starts_with('-') {
            let is_named = reply.starts_with("-ERR a header of a dump cannot describe the cuckoo filter");
            assert!(is_named && iterator == "0", "{context}: {reply}");
            return false;
        }
        iterator = server.reply[1][1..].to_owned();
        if iterator == "0" {
            return server.cuckoos.contains_key(&b"copy"[..]);
        }
        let data = std::mem::take(&mut server.bulk);
        let reply = server.call(&[b"CF.LOADCHUNK", b"copy", iterator.as_bytes(), &data]);
        assert_eq!(reply, "+OK", "{context}: chunk {iterator}");
    }
}

/// Asserts that every encoding of the filter under `k` loads as the same filter. Returns whether it has chunks.
fn assert_encodings(server: &mut Server, context: &str) -> bool {
    let filter = &server.cuckoos[&b"k"[..]];
    let expected = saved(filter);
    let loaded = load(4, &mut expected.reader(), &u64::MAX);
    let loaded = loaded.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(saved(&loaded) == expected, "{context}: snapshot");
    assert!(saved(&rewritten(filter, context)) == expected, "{context}: rewritten");
    let has_chunks = dumped(server, context);
    if has_chunks {
        assert!(saved(&server.cuckoos[&b"copy"[..]]) == expected, "{context}: chunks");
    }
    has_chunks
}

/// Returns the fields of a snapshot with any parameters.
fn fields(random: &mut Random) -> Vec<Field> {
    let count = 1 + random.below(3);
    let largest = 1u64 << 56;
    let buckets = *random.choose(&[1, 2, 3, 4, 8, 8, 8, largest - 1, largest / 2, largest, largest * 2, 0]);
    let bucket_size = *random.choose(&[1, 2, 2, 3, 255, 0]);
    let iterations = *random.choose(&[20, 20, 1, 0, 65_535]);
    let expansion = *random.choose(&[1, 2, 4, 0, 3, 32_768, 32_769, 65_535]);
    let items = *random.choose(&[5, 1, 0, u64::MAX]);
    let deletes = *random.choose(&[0, 3, u64::MAX]);
    let mut fields = [count as u64, buckets, items, deletes, bucket_size, iterations, expansion]
        .map(Field::Unsigned)
        .to_vec();
    for index in 0..count as u32 {
        let derived = buckets.saturating_mul(expansion.saturating_pow(index));
        let own = if random.below(4) > 0 && derived < 100 { derived } else { 1 + random.below(40) as u64 };
        let slots = (0..own * bucket_size).map(|_| (random.next() % 3 * (random.next() % 256)) as u8);
        fields.extend([Field::Unsigned(own), Field::Bytes(slots.collect())]);
    }
    fields
}

#[test]
fn what_loads_from_a_snapshot_loads_in_every_encoding() {
    let (seed, mut loaded, mut with_chunks) = (65, 0, 0);
    let mut random = Random(seed);
    for turn in 0..6000 {
        let fields = fields(&mut random);
        let context = format!("seed {seed}, turn {turn}, {:?}", &fields[..7]);
        let Ok(filter) = load(4, &mut Record(fields).reader(), &u64::MAX) else { continue };
        loaded += 1;
        let mut server = Server::new();
        server.settings = Settings { max_filter_bytes: 1 << 16, ..Settings::DEFAULT };
        server.cuckoos.insert(b"k".to_vec(), filter);
        with_chunks += usize::from(assert_encodings(&mut server, &context));
        for item in 0..1 + random.below(30) {
            server.run(&format!("CF.ADD k {item}"));
        }
        for item in 0..random.below(10) {
            server.run(&format!("CF.DEL k {item}"));
        }
        assert_encodings(&mut server, &format!("{context}, used"));
    }
    assert!(loaded > 1000 && with_chunks > 200, "{loaded} loaded, {with_chunks} with chunks");
}

#[test]
fn what_a_header_or_a_command_makes_loads_in_every_encoding() {
    let (seed, mut made) = (66, 0);
    let mut random = Random(seed);
    for turn in 0..3000 {
        let mut server = Server::new();
        server.settings =
            Settings { format: Format::RedisBloom, max_filter_bytes: 1 << 16, ..Settings::DEFAULT };
        let bucket_size = *random.choose(&[1u16, 2, 3, 255]);
        let iterations = *random.choose(&[1u16, 20, 65_535, 0]);
        let expansion = *random.choose(&[0u16, 1, 2, 3, 4, 32_768, 32_769]);
        let context = format!("seed {seed}, turn {turn}: {bucket_size}, {iterations}, {expansion}");
        if random.below(2) == 0 {
            let buckets = *random.choose(&[1u64, 2, 3, 16, 0]);
            let words = [9, buckets, 0, random.below(4) as u64].map(u64::to_le_bytes).concat();
            let slots = [bucket_size, iterations, expansion].map(u16::to_le_bytes).concat();
            server.call(&[b"CF.LOADCHUNK", b"k", b"1", &[words, slots].concat()]);
        } else {
            server.run(&format!(
                "CF.RESERVE k {} BUCKETSIZE {bucket_size} MAXITERATIONS {iterations} EXPANSION {expansion}",
                random.below(1000)
            ));
        }
        if !server.cuckoos.contains_key(&b"k"[..]) {
            continue;
        }
        made += 1;
        for item in 0..random.below(30) {
            server.run(&format!("CF.ADD k {item}"));
        }
        let has_items = server.cuckoos[&b"k"[..]].items() > 0;
        assert_eq!(assert_encodings(&mut server, &context), has_items, "{context}");
    }
    assert!(made > 1000, "{made}");
}

/// An array of another size than that of the parameters would be another one in the copy, whose chunks then miss items.
#[test]
fn a_filter_that_no_header_describes_has_no_chunks() {
    let slots = |count: usize| Field::Bytes((0..count).map(|slot| 1 + (slot * 37 % 255) as u8).collect());
    let fields = |parameters: [u64; 7], sizes: &[u64]| {
        let mut fields = parameters.map(Field::Unsigned).to_vec();
        for size in sizes {
            fields.extend([Field::Unsigned(*size), slots(*size as usize * 2)]);
        }
        fields
    };
    let (is_dumped, is_refused) = (true, false);
    for (parameters, sizes, expected) in [
        ([2, 64, 200, 0, 2, 20, 2], vec![64, 128], is_dumped),
        ([2, 64, 200, 0, 2, 20, 2], vec![64, 64], is_refused),
        ([1, 64, 200, 0, 2, 0, 2], vec![64], is_refused),
        ([2, 64, 200, 0, 2, 20, 0], vec![64, 64], is_refused),
        ([1, 6, 200, 0, 2, 20, 1], vec![6], is_refused),
    ] {
        let mut server = Server::new();
        let filter = load(4, &mut Record(fields(parameters, &sizes)).reader(), &u64::MAX).unwrap();
        server.cuckoos.insert(b"k".to_vec(), filter);
        assert_eq!(assert_encodings(&mut server, "other sizes"), expected, "{parameters:?}");
    }
}
