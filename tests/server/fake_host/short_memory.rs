//! Hosts with little memory: they refuse blocks to the module, and abort if they have no memory for a copy of their
//! own.

use super::OPTIONAL;
use super::host::{Host, with};
use crate::harness::Site;

/// The iterator of the first chunk after the header. It is constant, because the random bytes of this host are.
const FIRST_ITERATOR: u64 = (1 << 44) + 0x5A5A_5A5A_5A5A_5A5A % (1 << 46);

/// The number of items in a packed batch. Each has two bytes.
const ITEMS: u16 = 60_000;

/// Returns a packed batch of distinct items.
fn packed() -> Vec<u8> {
    (0..ITEMS).flat_map(u16::to_le_bytes).collect()
}

fn loaded(site: &Site, is_redis_7_0: bool) -> Host {
    let missing: &[_] = if is_redis_7_0 { &OPTIONAL } else { &[] };
    let mut host = Host::with(site, |state| state.missing.extend(missing));
    assert!(host.load(&[]), "{}", host.log());
    host
}

/// Redis 7.0 has no fallible calloc, so the module must clear blocks itself. The host fills new blocks with garbage.
pub(super) fn large_blocks_are_clear_without_calloc(site: &Site) {
    for capacity in ["100", "40000", "60000", "1000000", "30000000"] {
        let mut host = loaded(site, true);
        assert_eq!(host.call(&["bf.reserve", "k", "0.01", capacity]), "+OK");
        let items: Vec<String> = (0..2000).map(|item| item.to_string()).collect();
        let mexists: Vec<&str> =
            ["bf.mexists", "k"].into_iter().chain(items.iter().map(String::as_str)).collect();
        assert_eq!(host.call(&mexists), format!("*2000{}", " 0".repeat(2000)), "{capacity}");
    }
}

/// The words of a command.
type Words = Vec<Vec<u8>>;

/// Returns the cases: a name, the commands that prepare the host, and the command that runs with too little memory.
fn cases() -> Vec<(&'static str, Vec<Words>, Words)> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    let items: Vec<Vec<u8>> = (0..8000).map(|item| format!("item-{item}").into_bytes()).collect();
    let with_items = |line: &str| [words(line), items.clone()].concat();
    let with_batch = |line: &str| [words(line), vec![packed()]].concat();
    let reserve = words("bf.reserve k 0.01 100000");
    // This filter becomes full in the middle of a command. Only the items that it has accepted are replicated.
    let small = words("bf.reserve k 0.01 30000 NONSCALING");
    vec![
        ("a large filter", vec![], words("bf.reserve k 0.01 1000000")),
        ("many items for a new filter", vec![], with_items("bf.madd k")),
        ("many items", vec![reserve.clone()], with_items("bf.madd k")),
        (
            "many items for a full filter",
            vec![words("bf.reserve k 0.01 5000 NONSCALING")],
            with_items("bf.insert k NOCREATE ITEMS"),
        ),
        ("lookups", vec![reserve.clone()], with_items("bf.mexists k")),
        ("a batch for a new filter", vec![], with_batch("bf.bulkadd k FIXED 2")),
        ("a batch", vec![reserve.clone()], with_batch("bf.bulkadd k FIXED 2")),
        ("a counted batch", vec![reserve.clone()], with_batch("bf.bulkadd k COUNT FIXED 2")),
        ("a batch for a full filter", vec![small], with_batch("bf.bulkadd k FIXED 2")),
        ("lookups of a batch", vec![reserve.clone()], with_batch("bf.bulkexists k FIXED 1")),
        ("lookups of a batch without a filter", vec![], with_batch("bf.bulkexists k FIXED 1")),
        (
            "a chunk",
            vec![reserve, words("bf.scandump k 0")],
            words(&format!("bf.scandump k {FIRST_ITERATOR}")),
        ),
    ]
}

/// Returns a host that has run the commands `before`.
fn prepared(site: &Site, is_redis_7_0: bool, before: &[Words]) -> Host {
    let mut host = loaded(site, is_redis_7_0);
    for line in before {
        let reply = host.call(line);
        assert!(!reply.starts_with('-'), "{reply}");
    }
    host.take_replicated();
    host
}

/// Runs every command with limits from no memory to all that it needs. The host never lacks memory for its own copies,
/// and a command that fails has changed nothing.
pub(super) fn commands_without_memory_are_refused_before_a_change(site: &Site) {
    const STEPS: usize = 12;
    for is_redis_7_0 in [false, true] {
        for (name, before, command) in cases() {
            let mut host = prepared(site, is_redis_7_0, &before);
            let bytes = host.limit_memory(None);
            let expected = host.call(&command);
            assert!(!expected.starts_with('-'), "{name}: {expected}");
            let replicated = host.take_replicated();
            let peak_bytes = with(|state| state.memory_peak_bytes) - bytes;
            let mut refused = 0;
            assert!(peak_bytes > 0, "{name}");
            for step in 0..=STEPS {
                let more_bytes = peak_bytes * step / STEPS;
                let context =
                    format!("{name}, {more_bytes} of {peak_bytes} bytes, Redis 7.0: {is_redis_7_0}");
                let mut host = prepared(site, is_redis_7_0, &before);
                host.limit_memory(Some(more_bytes));
                let reply = host.call(&command);
                assert_eq!(with(|state| state.aborts), 0, "{context}: {}", &reply[..reply.len().min(80)]);
                let has_failed = reply.starts_with('-');
                if has_failed {
                    refused += 1;
                    assert!(reply.to_lowercase().contains("memory"), "{context}: {reply}");
                    assert_eq!(host.take_replicated(), Vec::<Vec<usize>>::new(), "{context}");
                    host.limit_memory(None);
                    assert_eq!(
                        host.call(&command).split(' ').count(),
                        expected.split(' ').count(),
                        "{context}"
                    );
                }
                // A filter without memory to grow refuses the remaining items. Such a reply is not compared.
                if !has_failed && !reply.contains('!') && !reply.contains("-ERR") {
                    assert!(reply == expected || name == "a counted batch", "{context}");
                    assert_eq!(host.take_replicated(), replicated, "{context}");
                }
            }
            assert!(refused > 0, "{name}: never refused");
        }
    }
}

/// The batch of a command may have hundreds of megabytes.
pub(super) fn large_arguments_are_replicated_without_a_copy(site: &Site) {
    let mut host = loaded(site, false);
    let item = vec![b'x'; 20_000];
    let bytes = host.limit_memory(None);
    host.call(&[b"bf.madd".as_slice(), b"k", b"small", &item, b"a", &item]);
    assert!(
        with(|state| state.memory_peak_bytes) < bytes + item.len(),
        "{}",
        with(|state| state.memory_peak_bytes) - bytes
    );
    let replicated = host.take_replicated();
    // The replicated command is BF.INSERT with the options of the new filter, and the items that were added.
    assert_eq!(replicated.len(), 1, "{replicated:?}");
    assert_eq!(replicated[0].iter().rev().take(3).collect::<Vec<_>>(), [&1, &20_000, &5]);
    let mut host = loaded(site, false);
    let batch = [b"small".as_slice(), &item, b"a", &item].join(&b"\n"[..]);
    let bytes = host.limit_memory(None);
    host.call(&[b"bf.bulkadd".as_slice(), b"k", b"COUNT", b"LINES", &batch]);
    // The limit includes the memory that is preallocated for the case that some items are refused.
    assert!(
        with(|state| state.memory_peak_bytes) < bytes + 2 * batch.len(),
        "{}",
        with(|state| state.memory_peak_bytes) - bytes
    );
    let replicated = host.take_replicated();
    assert_eq!(replicated.iter().map(|lengths| lengths.last().copied()).next_back(), Some(Some(batch.len())));
}
