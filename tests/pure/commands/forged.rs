//! Commands on a counting filter that crafted chunks make: a header of a large table, and segments with many entries for
//! few addresses. An item that is there is found, a refusal changes nothing, and a replica has the same filter.

use everbloom_filter::ItemHash;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::table::POSITIONS;

use crate::hashing::preimage;
use crate::support::Random;
use crate::support::fuzz::forge::{self, TableForm};
use crate::support::saved::{assert_value_survives, chunks};
use crate::support::server::Server;

/// The id of the forged dump.
const ID: u64 = 7;
/// The number of low bits of the hash that choose a segment of the forged table.
const DEPTH: u32 = 20;
/// The largest count of an entry, less 1.
const LARGEST: u64 = (1 << 54) - 1;

/// An entry of a forged table.
struct Forged {
    segment: u64,
    block: u32,
    bucket: u32,
    remainder: u64,
    /// The count, less 1.
    number: u64,
}

impl Forged {
    /// Returns an item of the entry. The bits of its hash that a smaller table needs are in the segment number.
    fn item(&self, segment: u64) -> [u8; 16] {
        let h1 = segment | u64::from(self.block) << DEPTH | self.remainder << (DEPTH + 6);
        preimage(ItemHash { h1, h2: u64::from(self.bucket) << 58 | 12_345 })
    }

    /// Returns the slots of the entry, in order, with its block and bucket.
    fn slots(&self, remainder_bits: u32) -> Vec<(u32, u32, u64)> {
        let mut values = vec![1 << remainder_bits | self.remainder];
        let mut number = self.number;
        while number > 0 {
            values.extend([0, number & 0xfff]);
            number >>= 12;
        }
        values.into_iter().map(|value| (self.block, self.bucket, value)).collect()
    }
}

/// The chunks of a forged dump.
struct Dump {
    header: Vec<u8>,
    /// The segments of the table, before the end of the dump.
    parts: Vec<u8>,
    /// The end of the dump.
    end: Vec<u8>,
}

/// The form of the entries of a large counting table, and a header without counts.
fn blank() -> (TableForm, Vec<u8>) {
    let mut server = Server::new();
    server.must("BF.RESERVE k 0.01 100 COUNTING");
    let chunk = chunks(server.filter("k"), 1).swap_remove(0).1;
    let mut header = chunk[..chunk.len() - 24].to_vec();
    let table = forge::table_start(&header).unwrap();
    header[table + 4] = 6;
    header[table + 16..][..8].copy_from_slice(&(1u64 << DEPTH).to_le_bytes());
    (TableForm::of(&header).unwrap(), header)
}

/// Returns the bits of a remainder in the forged table.
fn remainder_bits() -> u32 {
    blank().0.width(DEPTH, 6) - 1
}

/// Returns a dump of these entries, which are in the order of their segments. The header has this number of items.
fn dump(entries: &[Forged], items: u64) -> Dump {
    let (form, mut header) = blank();
    let (width, table) = (form.width(DEPTH, 6), forge::table_start(&header).unwrap());
    let mut segments: Vec<&[Forged]> = entries.chunk_by(|one, other| one.segment == other.segment).collect();
    segments.sort_by_key(|of| (of[0].segment as u32).reverse_bits());
    let (mut parts, mut used) = (Vec::new(), 0);
    for of_segment in segments {
        let slots: Vec<_> = of_segment.iter().flat_map(|entry| entry.slots(width - 1)).collect();
        used += slots.len() as u64;
        // At least a thirty-second of the slots stays free.
        let fits = |words: &usize| (words * 64 - 80) / (width as usize + 1) * 64 / 32 * 31 >= slots.len();
        let words = (3..).find(fits).unwrap();
        let segment = forge::segment(6, width, words, &slots).unwrap();
        parts.extend(forge::part(of_segment[0].segment as u32, DEPTH, 6, 0, &segment));
    }
    for (at, number) in [(24, used), (32, items), (40, items.min(entries.len() as u64))] {
        header[table + at..][..8].copy_from_slice(&number.to_le_bytes());
    }
    let chunk = |payload: &[u8], end| forge::with_trailer(payload, forge::iterator_at(end, ID), ID);
    let part = |start: u64, parts: &[u8], end| chunk(&[&start.to_le_bytes()[..], parts].concat(), end);
    Dump {
        header: chunk(&header, 0),
        parts: part(0, &parts, POSITIONS - 1),
        end: part(POSITIONS - 1, &[], POSITIONS),
    }
}

fn load(server: &mut Server, end: u64, chunk: &[u8]) -> String {
    let iterator = forge::iterator_at(end, ID).to_string();
    server.call(&[b"BF.LOADCHUNK", b"k", iterator.as_bytes(), chunk])
}

/// Returns a server into which the segments of a dump were loaded, but not its end.
fn half_loaded(dump: &Dump) -> Server {
    let mut server = Server::new();
    assert_eq!(load(&mut server, 0, &dump.header), "+OK");
    assert_eq!(load(&mut server, POSITIONS - 1, &dump.parts), "+OK");
    server
}

/// Runs a command. Asserts that a refusal changes nothing, that the value can be saved and loaded, and that a replica has
/// the same one.
fn call(server: &mut Server, argv: &[&[u8]]) -> String {
    let before = server.state();
    let reply = server.call(argv);
    if reply.starts_with('-') {
        assert!(server.state() == before, "changed by a refused command: {reply}");
    }
    assert_value_survives(&server.keys[&b"k"[..]], "crafted");
    let mut replica = Server::at(server.now_ms);
    replica.replay(&server.replicated_calls);
    assert!(replica.state() == server.state(), "the replica differs after {reply}");
    reply
}

/// Loads the end of a dump. Returns whether the filter is complete.
fn complete(server: &mut Server, dump: &Dump) -> bool {
    let reply = call(
        server,
        &[b"BF.LOADCHUNK", b"k", forge::iterator_at(POSITIONS, ID).to_string().as_bytes(), &dump.end],
    );
    assert!(reply == "+OK" || reply.starts_with("-ERR"), "{reply}");
    reply == "+OK"
}

/// Returns entries for a few segments, `count` in all, of which no two are in the same bucket of one segment.
fn scattered(count: usize, random: &mut Random) -> Vec<Forged> {
    const SEGMENTS: usize = 50;
    let mut entries = Vec::new();
    for number in 0..SEGMENTS {
        let segment = random.next() & ((1 << (DEPTH - 2)) - 1);
        let of_segment = count / SEGMENTS + usize::from(number < count % SEGMENTS);
        let mut buckets: Vec<u32> = (0..64).collect();
        for _ in 0..of_segment {
            let bucket = buckets.swap_remove(random.below(buckets.len()));
            let remainder = random.next() & ((1 << remainder_bits()) - 1);
            entries.push(Forged { segment, block: random.below(64) as u32, bucket, remainder, number: 0 });
        }
    }
    entries
}

/// An item that matches an entry with a count that takes more slots.
#[test]
fn an_add_to_a_crafted_filter_leaves_no_segment_too_full() {
    for count in [300, 480, 490, 493, 494, 495, 496, 497, 500, 700] {
        let entries = scattered(count, &mut Random(5));
        let dump = dump(&entries, count as u64);
        let mut server = half_loaded(&dump);
        let reply = call(&mut server, &[b"BF.ADD", b"k", b"item"]);
        assert!(reply.starts_with("-ERR the filter is being loaded"), "{reply}");
        assert!(complete(&mut server, &dump), "{count}");
        for entry in entries.iter().step_by(17) {
            let item = entry.item(entry.segment | 1 << (DEPTH - 2));
            call(&mut server, &[b"BF.ADD", b"k", &item]);
        }
    }
}

/// The entry that matches has the largest count.
#[test]
fn a_refused_add_to_a_crafted_filter_changes_nothing() {
    let mut entries = scattered(50, &mut Random(5));
    entries[7].number = LARGEST;
    let items = 50 + LARGEST;
    let dump = dump(&entries, items);
    let mut server = half_loaded(&dump);
    assert!(complete(&mut server, &dump));
    let item = entries[7].item(entries[7].segment);
    let reply = call(&mut server, &[b"BF.ADD", b"k", &item]);
    assert!(reply.starts_with("-ERR"), "{reply}");
}

/// The header says that the table has one item.
#[test]
fn a_deletion_from_a_crafted_filter_removes_one_item() {
    let entries = scattered(495, &mut Random(5));
    let dump = dump(&entries, 1);
    let mut server = half_loaded(&dump);
    assert!(complete(&mut server, &dump));
    let items: Vec<_> = entries.iter().map(|entry| entry.item(entry.segment)).collect();
    call(&mut server, &[b"BF.DEL", b"k", &items[0]]);
    let filter = server.filter("k");
    let found = items[1..].iter().filter(|item| filter.contains(&item[..], NoPrefetch)).count();
    assert_eq!(found, items.len() - 1);
}

/// All entries are in two blocks of a small table.
#[test]
fn no_entry_of_a_crafted_dump_is_lost() {
    for numbers in [0, 1] {
        let mut random = Random(5);
        let mut entries = Vec::new();
        for segment in 0..1024u64 {
            let mut places: Vec<(u32, u32)> = (0..128).map(|place| (place / 64, place % 64)).collect();
            for _ in 0..69 {
                let (block, bucket) = places.swap_remove(random.below(places.len()));
                let remainder = random.next() & ((1 << remainder_bits()) - 1);
                entries.push(Forged { segment: segment << 10, block, bucket, remainder, number: numbers });
            }
        }
        let dump = dump(&entries, entries.len() as u64 * (1 + numbers));
        let mut server = half_loaded(&dump);
        if !complete(&mut server, &dump) {
            continue;
        }
        let filter = server.filter("k");
        let lost = entries.iter().filter(|entry| !filter.contains(&entry.item(entry.segment), NoPrefetch));
        assert_eq!(lost.count(), 0, "of {} entries", entries.len());
    }
}
