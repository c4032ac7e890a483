//! Cuckoo filters with arrays that are much larger than what they hold, and filters of very many arrays: they lose no item,
//! and a command or a callback costs what was sent and what is stored.

use everbloom_command::Settings;
use everbloom_filter::cuckoo::array::CuckooHash;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::{Format, LimitSource, work};
use everbloom_format::DecodeError;
use everbloom_format::chunks::Rewritten;
use everbloom_format::redisbloom::cuckoo::{load, rewrite};

use crate::support::rdb::{Field, Record};
use crate::support::saved::assert_cuckoo_callbacks;
use crate::support::server::Server;

/// More slots than a command on a filter of a dozen items reads.
const FEW_SLOTS: u64 = 1 << 14;

/// Returns a server that makes cuckoo filters, without a limit on their bytes.
fn server() -> Server {
    let mut server = Server::new();
    server.settings =
        Settings { format: Format::RedisBloom, max_filter_bytes: u64::MAX, ..Settings::DEFAULT };
    server
}

/// Returns the header of a dump: items, buckets, deletions and arrays; slots of a bucket, iterations and expansion.
fn header(numbers: [u64; 4], parameters: [u16; 3]) -> Vec<u8> {
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    numbers.chain(parameters.iter().flat_map(|number| number.to_le_bytes())).collect()
}

fn load_header(server: &mut Server, numbers: [u64; 4], parameters: [u16; 3]) -> String {
    server.call(&[b"CF.LOADCHUNK", b"k", b"1", &header(numbers, parameters)])
}

fn filter(server: &Server) -> &CuckooFilter {
    &server.cuckoos[&b"k"[..]]
}

/// Runs a command, which must read few slots. Returns its reply.
fn cheap(server: &mut Server, line: &str) -> String {
    let reply = server.run(line);
    assert!(server.work.slots < FEW_SLOTS, "{line}: {:?}", server.work);
    reply
}

/// The position of a bucket has 32 bits in RedisBloom, but not in its kick-out. So an add that moves fingerprints puts them
/// where no lookup finds them.
#[test]
fn acknowledged_items_of_a_loaded_array_above_4_gib_are_found() {
    let (buckets, bucket_size) = (1u64 << 31, 3);
    let mut server = server();
    assert_eq!(load_header(&mut server, [1, buckets, 0, 1], [bucket_size, 20, 1]), "+OK");
    let is_beyond = |item: &u64| {
        let hash = CuckooHash::of(item.to_string().as_bytes());
        [hash.first, hash.second].iter().all(|number| (number % buckets) * u64::from(bucket_size) >= 1 << 32)
    };
    let items: Vec<u64> = (0..1000).filter(is_beyond).take(20).collect();
    assert_eq!(items.len(), 20);
    let mut acknowledged = 0;
    for item in &items {
        let added = (0..9).filter(|_| server.run(&format!("CF.ADD k {item}")) == "#t").count();
        assert_eq!(server.run(&format!("CF.COUNT k {item}")), format!(":{added}"), "{item}");
        acknowledged += added;
    }
    assert_eq!(acknowledged, 20 * 6, "the slots of two buckets");
    // A deletion that compacts loses none either.
    for item in &items {
        assert_eq!(server.run(&format!("CF.DEL k {item}")), "#t");
        server.run("CF.COMPACT k");
        assert_eq!(server.run(&format!("CF.COUNT k {item}")), ":5", "{item}");
    }
}

#[test]
fn a_filter_grows_to_arrays_of_4_gib_at_most() {
    // The next array has 4 GiB, and the one after it 8 GiB.
    let mut server = server();
    assert_eq!(load_header(&mut server, [1, 1 << 30, 0, 1], [2, 20, 2]), "+OK");
    for number in 0..12 {
        let expected = if number < 8 { "#t" } else { "-ERR Insufficient memory" };
        assert_eq!(server.run("CF.ADD k a"), expected, "{number}");
    }
    assert_eq!(filter(&server).arrays().len(), 2);
    assert_eq!(server.run("CF.COUNT k a"), ":8");
    let line = server.log.last().unwrap();
    assert!(line.contains("an array of a cuckoo filter can have (4294967296)"), "{line}");
    // What can be addressed within 4 GiB is refused by the limit of the filter only.
    server.settings.max_filter_bytes = 1 << 30;
    assert_eq!(server.run("CF.ADD k a"), "-ERR Insufficient memory");
}

/// A header of 38 bytes makes two arrays of 1 GiB. Only the buckets of two items are ever written to.
#[test]
fn commands_read_only_what_is_stored() {
    let mut server = server();
    assert_eq!(load_header(&mut server, [1, 1 << 29, 0, 2], [2, 20, 1]), "+OK");
    for line in ["CF.ADD k a", "CF.COUNT k a", "CF.DEL k a", "CF.ADD k a", "CF.ADD k b", "CF.COMPACT k"] {
        cheap(&mut server, line);
        assert_cuckoo_callbacks(filter(&server), line);
    }
    assert_eq!(server.run("CF.MEXISTS k a b"), "*2 #t #t");
    assert_eq!(cheap(&mut server, "CF.DEL k a"), "#t");
    assert_eq!(server.run("CF.MEXISTS k a b"), "*2 #f #t");
}

/// With a large expansion, each deletion after the growth compacts: the last array has 2 GiB and few items.
#[test]
fn deletions_after_a_large_expansion_read_only_what_is_stored() {
    let mut server = server();
    assert_eq!(server.run("CF.RESERVE k 65536 EXPANSION 32768"), "+OK");
    for _ in 0..7 {
        cheap(&mut server, "CF.ADD k a");
    }
    for item in 0..10 {
        cheap(&mut server, &format!("CF.ADD k {item}"));
    }
    assert_cuckoo_callbacks(filter(&server), "grown");
    assert_eq!(filter(&server).slots_bytes(), (1 << 31) + (1 << 16));
    for count in (0..7).rev() {
        assert_eq!(cheap(&mut server, "CF.DEL k a"), "#t");
        assert_eq!(server.run("CF.COUNT k a"), format!(":{count}"));
    }
    assert_eq!(filter(&server).arrays().len(), 1, "the last array is dropped when it is empty");
}

/// A rewritten append-only file has the memory that was written to.
#[test]
fn a_rewritten_file_has_only_what_is_stored() {
    let mut server = server();
    assert_eq!(load_header(&mut server, [1, 1 << 29, 0, 2], [2, 20, 1]), "+OK");
    for item in ["a", "b", "c"] {
        server.run(&format!("CF.ADD k {item}"));
    }
    let (mut sent, mut commands) = (0, Vec::new());
    _ = work::take();
    rewrite(filter(&server), &mut |command| {
        let Rewritten::CuckooChunk { iterator, data } = command else { panic!("not a chunk") };
        sent += data.len();
        commands.push((iterator.to_string(), data.to_vec()));
    })
    .unwrap();
    let slots = work::take().slots;
    assert!(sent < 4 * 4096 && slots < FEW_SLOTS, "{sent} bytes, {slots} slots");
    for (iterator, data) in &commands {
        assert_eq!(server.call(&[b"CF.LOADCHUNK", b"copy", iterator.as_bytes(), data]), "+OK");
    }
    assert_eq!(server.run("CF.MEXISTS copy a b c d"), "*4 #t #t #t #f");
    assert_eq!(server.run("CF.DEBUG copy"), server.run("CF.DEBUG k"));
}

/// A header or a payload of tens of thousands of arrays takes the memory of their structs.
#[test]
fn the_structs_of_arrays_count_towards_the_limit() {
    let mut server = server();
    server.settings.max_filter_bytes = 1 << 20;
    let many = [1, 1, 0, 65_535];
    assert_eq!(load_header(&mut server, many, [1, 20, 1]), "-Couldn't create filter!");
    assert_eq!(load_header(&mut server, [1, 1, 0, 1000], [1, 20, 1]), "+OK");
    let arrays = (0..65_535).flat_map(|_| [Field::Unsigned(1), Field::Bytes(vec![0])]);
    let fields = [65_535, 1, 1, 0, 1, 20, 1].map(Field::Unsigned).into_iter().chain(arrays);
    let refused = load(4, &mut Record(fields.collect()).reader(), &(1 << 20)).err();
    let is_limit = |error: &Option<DecodeError>| matches!(error, Some(DecodeError::TooLarge { limit, .. }) if limit.source == LimitSource::Setting);
    assert!(is_limit(&refused), "{refused:?}");
    // Growth counts them too.
    server.settings.max_filter_bytes = 4096;
    server.settings.cuckoo.max_expansions = 65_536;
    assert_eq!(server.run("CF.RESERVE g 2 BUCKETSIZE 1"), "+OK");
    let added = (0..1000).take_while(|number| server.run(&format!("CF.ADD g {number}")) == "#t").count();
    assert!(added < 300, "{added} items of one byte in arrays of two");
}

/// An array of three buckets, in which moves cannot be taken back by RedisBloom's formula. The filter cannot grow.
#[test]
fn an_add_to_a_full_array_that_is_no_power_of_two_moves_nothing_if_the_filter_cannot_grow() {
    let numbers = [1, (1 << 56) - 1, 3, 0, 1, 65_535, 1, 3].map(Field::Unsigned);
    let fields = numbers.into_iter().chain([Field::Bytes(vec![9; 3])]).collect();
    let mut server = server();
    server.cuckoos.insert(b"k".to_vec(), load(4, &mut Record(fields).reader(), &u64::MAX).unwrap());
    for item in 0..100 {
        assert_eq!(cheap(&mut server, &format!("CF.ADD k {item}")), "-ERR Insufficient memory");
        assert_eq!(filter(&server).arrays()[0].bytes(), [9; 3]);
    }
}

/// The result of moving fingerprints is known if no slot is free, also with the most iterations.
#[test]
fn an_add_to_a_full_filter_moves_nothing() {
    for (numbers, parameters) in [([0, 4, 0, 1], [1, 65_535, 0]), ([0, 4, 0, 3], [255, 65_535, 1])] {
        let mut server = server();
        assert_eq!(load_header(&mut server, numbers, parameters), "+OK");
        server.settings.cuckoo.max_expansions = 65_536;
        server.settings.max_filter_bytes = filter(&server).slots_bytes() + 300;
        let slots = filter(&server).slots_bytes();
        let mut number = 0;
        while filter(&server).items() < slots {
            server.run(&format!("CF.ADD k {number}"));
            number += 1;
        }
        for item in 0..100 {
            let reply = server.run(&format!("CF.ADD k {item}"));
            assert!(reply == "-Filter is full" || reply == "-ERR Insufficient memory", "{reply}");
            assert!(server.work.slots < 10_000, "{:?}", server.work);
        }
    }
}

/// 64 arrays of alternating sizes, in which no fingerprint can move, and each of which has a free slot.
#[test]
fn a_compaction_reads_each_bucket_once() {
    for bucket_size in [1usize, 2, 8, 9, 16, 255] {
        let sizes = (0..64usize).map(|index| 8 + index % 2);
        let mut fields = [64, 8, 5, 0, bucket_size as u64, 1, 1].map(Field::Unsigned).to_vec();
        for size in sizes {
            let mut slots = vec![9; size * bucket_size];
            // No fingerprint 9 has bucket 0 in an array of eight buckets, and buckets 0 and 5 here are free.
            for bucket in [0, 5] {
                slots[bucket * bucket_size..][..bucket_size].fill(0);
            }
            fields.extend([Field::Unsigned(size as u64), Field::Bytes(slots)]);
        }
        let mut server = server();
        let loaded = load(4, &mut Record(fields).reader(), &u64::MAX).unwrap();
        let stored = loaded.slots_bytes();
        server.cuckoos.insert(b"k".to_vec(), loaded);
        server.run("CF.COMPACT k");
        assert_eq!(server.run("CF.COMPACT k"), "+OK");
        let most = stored * 64 * 2 * (1 + bucket_size.min(8) as u64);
        assert!(server.work.slots < most, "{bucket_size} slots: {:?} for {stored} bytes", server.work);
    }
}
