//! A host that saves without a fork: it saves values on a second thread while commands read them, and a key whose value is
//! being saved is null for a command that would write to it. `scripts/sanitize` runs these tests under ThreadSanitizer, or
//! under Helgrind.

use std::ffi::{c_char, c_void};
use std::slice;
use std::sync::Barrier;
use std::thread;

use super::host::{Host, TypeMethods, with};
use super::moving::defragment;
use crate::harness::Site;

/// The fields of a value that was saved, as text or bytes.
pub(super) struct Saved<'b> {
    fields: Vec<Vec<u8>>,
    /// Where the first string waits, twice, for another thread.
    pause: Option<&'b Barrier>,
}

/// # Safety
/// `saved` must be a [`Saved`].
unsafe fn push(saved: *mut c_void, field: Vec<u8>) {
    // SAFETY: by the caller's contract.
    unsafe { &mut *saved.cast::<Saved<'_>>() }.fields.push(field);
}

/// # Safety
/// `saved` must be a [`Saved`].
pub(super) unsafe extern "C" fn save_unsigned(saved: *mut c_void, number: u64) {
    // SAFETY: by the caller's contract.
    unsafe { push(saved, number.to_string().into_bytes()) };
}

/// # Safety
/// `saved` must be a [`Saved`].
pub(super) unsafe extern "C" fn save_double(saved: *mut c_void, number: f64) {
    // SAFETY: by the caller's contract.
    unsafe { push(saved, number.to_string().into_bytes()) };
}

/// # Safety
/// `saved` must be a [`Saved`], and `length` bytes must begin at `start`.
pub(super) unsafe extern "C" fn save_bytes(saved: *mut c_void, start: *const c_char, length: usize) {
    // SAFETY: by the caller's contract.
    if let Some(pause) = unsafe { &mut *saved.cast::<Saved<'_>>() }.pause.take() {
        pause.wait();
        pause.wait();
    }
    // SAFETY: by the caller's contract.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), length) };
    // SAFETY: by the caller's contract.
    unsafe { push(saved, bytes.to_vec()) };
}

/// # Safety
/// `digest` must be a number of bytes, and `length` bytes must begin at `start`.
pub(super) unsafe extern "C" fn digest_bytes(digest: *mut c_void, start: *const u8, length: usize) {
    // SAFETY: by the caller's contract.
    let bytes = unsafe { slice::from_raw_parts(start, length) };
    // SAFETY: by the caller's contract.
    unsafe { *digest.cast::<usize>() += bytes.iter().filter(|byte| **byte != 0).count() };
}

pub(super) extern "C" fn digest_end(_digest: *mut c_void) {}

/// A value of the module, with the callbacks of its type. The module promises that it can be saved on another thread.
#[derive(Clone, Copy)]
struct StoredValue {
    methods: TypeMethods,
    value: *mut c_void,
}

// SAFETY: this is what the module promises, and what these tests check.
unsafe impl Send for StoredValue {}
// SAFETY: as above.
unsafe impl Sync for StoredValue {}

impl StoredValue {
    /// Returns the value of the key of this thread's host.
    fn of_key(data_type: &str) -> Self {
        with(|state| Self { methods: state.data_types[data_type], value: state.value.unwrap() })
    }

    fn saved(&self, pause: Option<&Barrier>) -> Vec<Vec<u8>> {
        let mut saved = Saved { fields: Vec::new(), pause };
        // SAFETY: the value is alive and one of the type, and nothing writes to it.
        unsafe { (self.methods.save)((&raw mut saved).cast(), self.value) };
        saved.fields
    }
}

/// The type of cuckoo filters, which are made with `bf.format redisbloom`.
const CUCKOO: &str = "MBbloomCF";

/// The kinds: the type, the command that makes the filter `k`, and those that add to it.
const KINDS: [(&str, &str, &str); 10] = [
    ("everbloom", "bf.insert k ITEMS first", "bf.madd k"),
    ("everbloom", "bf.reserve k 0.01 400", "bf.madd k"),
    ("everbloom", "bf.reserve k 0.01 100000 KEYED", "bf.madd k"),
    ("everbloom", "bf.reserve k 0.01 400 NONSCALING SATURATE", "bf.madd k"),
    ("everbloom", "bf.reserve k 0.01 400 COUNTING", "bf.madd k"),
    ("everbloom", "bf.reserve k 0.01 400 WINDOW 86400", "bf.madd k"),
    ("everbloom", "bf.import k EMPTY SCHEME go-zero BITS 4000 CAPACITY 9000", "bf.madd k"),
    ("MBbloom--", "bf.reserve k 0.01 400 FORMAT redisbloom", "bf.madd k"),
    ("bloomfltr", "bf.reserve k 0.01 400 FORMAT valkey-bloom", "bf.madd k"),
    (CUCKOO, "cf.reserve k 400", "cf.insert k ITEMS"),
];

/// Commands that read the filter `k`, of every kind. Some are refused for some kinds.
const READS: [&str; 19] = [
    "bf.exists k item-1",
    "bf.mexists k item-1 item-2 none",
    "bf.bulkexists k FIXED 6 item-1item-2",
    "bf.ttl k item-1",
    "bf.card k",
    "bf.info k",
    "bf.info k ITEMS",
    "bf.stats k",
    "bf.debug k",
    "bf.scandump k 0",
    "bf.export k",
    "cf.exists k item-1",
    "cf.mexists k item-1 item-2",
    "cf.count k item-1",
    "cf.info k",
    "cf.debug k",
    "cf.scandump k 0",
    "cf.scandump k 1",
    "bf.pttl k item-1",
];

/// Commands that would write to the filter `k`.
const WRITES: [&str; 6] = [
    "bf.add k item",
    "bf.madd k item",
    "bf.reserve k 0.01 100",
    "cf.add k item",
    "bf.clear k",
    "bf.insert k ITEMS item",
];

fn say(host: &mut Host, line: &str) -> String {
    host.call(&line.split(' ').collect::<Vec<_>>())
}

/// Loads the module, and makes a filter with items.
fn host(site: &Site, (data_type, make, add): (&str, &str, &str)) -> Host {
    let mut host = Host::new(site);
    let settings: &[&str] = if data_type == CUCKOO { &["FORMAT", "redisbloom"] } else { &[] };
    assert!(host.load(settings), "{}", host.log());
    assert!(!say(&mut host, make).starts_with('-'), "{make}: {}", with(|state| state.replies.join(" ")));
    let items: String = (0..300).map(|item| format!(" item-{item}")).collect();
    assert!(!say(&mut host, &format!("{add}{items}")).contains("-ERR"), "{make}");
    host
}

pub(super) fn a_save_beside_reads_writes_what_a_save_alone_does(site: &Site) {
    for (data_type, make, add) in KINDS {
        let mut host = host(site, (data_type, make, add));
        let stored = StoredValue::of_key(data_type);
        let before = stored.saved(None);
        assert!(before.len() > 2 || before.iter().any(|field| field.len() > 8), "{make}");
        with(|state| state.is_in_use = true);
        thread::scope(|scope| {
            // Captures all of the value, which is what may be sent to a thread.
            let saver = scope.spawn(move || [(); 20].map(|()| { &stored }.saved(None)));
            for round in 0.. {
                if round > 2 && saver.is_finished() {
                    break;
                }
                let mut found = 0;
                for read in READS {
                    let reply = say(&mut host, read);
                    assert!(!reply.contains("being saved"), "{make}: {read}: {reply}");
                    found += u32::from(read.ends_with("exists k item-1") && reply == "1");
                }
                assert!(found >= 1, "{make}");
                for write in WRITES {
                    assert_eq!(
                        say(&mut host, write),
                        "-ERR the key is being saved, try again",
                        "{make}: {write}"
                    );
                }
                // DUMP saves the value too.
                assert!(stored.saved(None) == before, "{make}");
                let mut digest = 0usize;
                // SAFETY: the value is alive and one of the type.
                unsafe { (stored.methods.digest)((&raw mut digest).cast(), stored.value) };
                // SAFETY: as above.
                assert!(digest > 0 && unsafe { (stored.methods.memory_usage)(stored.value) } > 0, "{make}");
            }
            assert!(saver.join().unwrap().into_iter().all(|saved| saved == before), "{make}");
        });
        with(|state| state.is_in_use = false);
        // The server lets the key be written to again.
        assert!(!say(&mut host, &format!("{add} later")).contains("-ERR"), "{make}");
        assert!(stored.saved(None) != before, "{make}");
    }
}

pub(super) fn a_save_keeps_every_block_in_its_place(site: &Site) {
    let (data_type, ..) = KINDS[1];
    let mut host = host(site, KINDS[1]);
    let stored = StoredValue::of_key(data_type);
    let before = stored.saved(None);
    let pause = Barrier::new(2);
    thread::scope(|scope| {
        let saver = scope.spawn(|| { &stored }.saved(Some(&pause)));
        pause.wait();
        assert_eq!(defragment(data_type), (1, 0));
        pause.wait();
        assert!(saver.join().unwrap() == before);
    });
    let (_, moved) = defragment(data_type);
    assert!(moved > 1, "{moved}");
    assert_eq!(say(&mut host, "bf.exists k item-1"), "1");
}
