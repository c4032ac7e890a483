//! Active defragmentation by a host that moves every block, and tells the module to stop whenever it asks.

use std::ffi::{c_int, c_ulong, c_void};
use std::ptr;

use everbloom_filter::UnknownMemory;
use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_format::filter::{chunk, header};

use super::host::{ERR, Host, OK, with};
use super::memory;
use crate::harness::Site;
use crate::hostile::header_chunk;
use crate::support::make::{ANY, add, plain, promise, redisbloom, unreserved};

/// Old blocks are overwritten with this byte, so that a later read is detected.
const GONE: u8 = 0xDD;
/// More calls than any filter of these tests has blocks.
const CALLS_MAX: usize = 100_000;

/// # Safety
/// `block` must be the module's own and not be used again.
pub(super) unsafe extern "C" fn defrag_alloc(_: *mut c_void, block: *mut c_void) -> *mut c_void {
    let size = memory::malloc_size(block);
    let moved = memory::allocate(size);
    // SAFETY: both blocks have that many bytes, and the new one is fresh.
    unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), size) };
    // SAFETY: the module no longer uses the block.
    unsafe { ptr::write_bytes(block.cast::<u8>(), GONE, size) };
    // SAFETY: the module no longer uses the block.
    unsafe { memory::free(block) };
    with(|state| state.moved_blocks += 1);
    moved
}

pub(super) extern "C" fn defrag_should_stop(_: *mut c_void) -> c_int {
    1
}

pub(super) extern "C" fn defrag_cursor_set(_: *mut c_void, cursor: c_ulong) -> c_int {
    with(|state| state.defrag_cursor = cursor);
    OK
}

/// # Safety
/// `cursor` must be a place for a number.
pub(super) unsafe extern "C" fn defrag_cursor_get(_: *mut c_void, cursor: *mut c_ulong) -> c_int {
    let last = with(|state| state.defrag_cursor);
    if last == 0 {
        return ERR;
    }
    // SAFETY: by the module's contract.
    unsafe { cursor.write(last) };
    OK
}

/// Moves all blocks of the key's value. Returns the number of calls of the module, and of moved blocks.
pub(super) fn defragment(data_type: &str) -> (usize, usize) {
    let (methods, mut value) = with(|state| {
        (state.defrag_cursor, state.moved_blocks) = (0, 0);
        (state.data_types[data_type], state.value.unwrap())
    });
    for calls in 1..CALLS_MAX {
        // SAFETY: a value of the type, in a variable of this function.
        let status = unsafe { (methods.defrag)(ptr::null_mut(), ptr::null_mut(), &raw mut value) };
        with(|state| state.value = Some(value));
        if status == 0 {
            return (calls, with(|state| state.moved_blocks));
        }
    }
    panic!("{CALLS_MAX} calls and more")
}

pub(super) fn every_block_of_a_filter_can_be_moved(site: &Site) {
    let scheme = ["bf.import", "k", "EMPTY", "SCHEME", "go-zero", "BITS", "1000", "CAPACITY", "10"];
    // Each of these is one block: the struct, the bits of a layer, a list of layers, a table beside layers, a policy
    // other than a promise, a hash and layout other than everbloom's, the history of a window, and a segment. The
    // directory of several segments has three blocks. Each layer and each segment takes one call.
    type Blocks = fn(usize) -> usize;
    let kinds: [(&str, &[&str], usize, Blocks); 7] = [
        ("everbloom", &["bf.reserve", "k", "0.01", "10", "FORMAT", "everbloom"], 9000, |calls| 6 + calls),
        ("everbloom", &["bf.reserve", "k", "0.01", "10", "COUNTING"], 9000, |calls| 5 + calls),
        ("everbloom", &["bf.reserve", "k", "0.01", "10", "WINDOW", "86400"], 9000, |calls| 6 + calls),
        ("everbloom", &["bf.reserve", "k", "0.01", "10"], 100, |calls| 3 + calls),
        ("MBbloom--", &["bf.reserve", "k", "0.01", "10", "FORMAT", "redisbloom"], 200, |calls| 3 + 2 * calls),
        ("bloomfltr", &["bf.reserve", "k", "0.01", "10", "FORMAT", "valkey-bloom"], 200, |calls| {
            3 + 2 * calls
        }),
        ("everbloom", &scheme, 9000, |calls| 8 + calls),
    ];
    for (data_type, make, count, expected_blocks) in kinds {
        let mut host = Host::new(site);
        assert!(host.load(&[]), "{}", host.log());
        assert_eq!(host.call(make), "+OK", "{make:?}");
        let items: Vec<String> = (0..count).map(|item| format!("item-{item}")).collect();
        let command =
            |name| -> Vec<&str> { [name, "k"].into_iter().chain(items.iter().map(String::as_str)).collect() };
        host.call(&command("bf.madd"));
        let replies = host.call(&command("bf.mexists"));
        assert_eq!(replies, format!("*{count}{}", " 1".repeat(count)), "{make:?}");
        for _ in 0..2 {
            let (calls, blocks) = defragment(data_type);
            assert!(calls > 1, "{make:?}");
            assert_eq!(blocks, expected_blocks(calls), "{make:?}");
            assert_eq!(host.call(&command("bf.mexists")), replies, "{make:?}");
        }
        // The filter continues to grow with its moved parts.
        host.call(&command("bf.madd"));
        assert_eq!(host.call(&["bf.add", "k", "one-more"]), "1");
    }
}

/// A step of defragmentation is bounded: the module does not move large blocks, which no allocator could place better.
pub(super) fn large_blocks_stay_where_they_are(site: &Site) {
    // An array of 120 KB, and one of 1.2 MB: in a block of 1 MiB, which stays, and a small one, beside their pointers.
    for (capacity, blocks) in [("100000", 2), ("1000000", 3)] {
        let mut host = Host::new(site);
        assert!(host.load(&[]), "{}", host.log());
        assert_eq!(host.call(&["bf.reserve", "k", "0.01", capacity]), "+OK");
        assert_eq!(host.call(&["bf.add", "k", "item"]), "1");
        assert_eq!(defragment("everbloom"), (1, blocks), "{capacity}");
        assert_eq!(host.call(&["bf.exists", "k", "item"]), "1");
    }
}

/// Returns the header of a union, for BF.LOADCHUNK. This host has a single key, so it cannot run BF.MERGE.
fn union_header() -> Vec<u8> {
    let (mut filter, mut other) =
        (plain(promise(0.01, 100, 2)), redisbloom(0.01, 10, RedisBloomOptions::SCALING, 2));
    for filter in [&mut filter, &mut other] {
        add(filter, b"item").unwrap();
    }
    assert_eq!(filter.merge(&[&other], u64::MAX, false, &ANY, UnknownMemory), Ok(true));
    chunk(&filter, Some(filter.dump_as(1)), 0).unwrap().unwrap().data.into_owned()
}

pub(super) fn every_block_of_a_union_can_be_moved(site: &Site) {
    let mut host = Host::new(site);
    assert!(host.load(&[]), "{}", host.log());
    let header = union_header();
    assert_eq!(host.call(&[b"bf.loadchunk".as_slice(), b"k", b"1", &header]), "+OK");
    let items: Vec<String> = (0..1000).map(|item| format!("item-{item}")).collect();
    let command =
        |name| -> Vec<&str> { [name, "k"].into_iter().chain(items.iter().map(String::as_str)).collect() };
    host.call(&command("bf.madd"));
    for _ in 0..2 {
        let (calls, blocks) = defragment("everbloom");
        assert!(calls > 2);
        // Six blocks besides bits and segments: the struct, the policy, the list of layers, the hash and layout of one
        // layer, the table, and the origin of the header.
        assert_eq!(blocks, 6 + calls);
        assert_eq!(host.call(&command("bf.mexists")), format!("*1000{}", " 1".repeat(1000)));
    }
    assert_eq!(host.call(&["bf.add", "k", "one-more"]), "1");
}

/// A header of 120 bytes can say that a table has 2^30 segments. None of them is stored, so none is visited.
pub(super) fn segments_that_are_not_stored_are_not_visited(site: &Site) {
    const POLICY_BYTES: usize = 48;
    let mut host = Host::new(site);
    assert!(host.load(&[]), "{}", host.log());
    let mut header = header(&plain(unreserved(0.01, 100, 2)));
    let table = &mut header[POLICY_BYTES..];
    table[4] = 6;
    table[16..24].copy_from_slice(&(1u64 << 30).to_le_bytes());
    let data = header_chunk(&header, (1 << 44) + 7, &7u64.to_le_bytes());
    let iterator = ((1u64 << 44) + 7).to_string();
    assert_eq!(host.call(&[b"bf.loadchunk".as_slice(), b"k", iterator.as_bytes(), &data]), "+OK");
    // The struct, and that of the load.
    assert_eq!(defragment("everbloom"), (1, 2));
    assert!(host.call(&["bf.add", "k", "item"]).starts_with("-ERR the filter is being loaded"));
}
