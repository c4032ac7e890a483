//! Loads the module into hosts that differ from every server: a function is missing or fails, or there is no memory.
//!
//! This program is the host: it opens the module as a server does and gives it functions. Every test checks that the
//! module frees only blocks that the host has allocated.

mod callbacks;
mod forkless;
mod functions;
mod host;
mod memory;
mod moving;
mod short_memory;

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::path::Path;

use crate::harness::{ROOT, Site, Test, tests, wait_until};
use forkless::{a_save_beside_reads_writes_what_a_save_alone_does, a_save_keeps_every_block_in_its_place};
use host::{Host, with};
use moving::{
    every_block_of_a_filter_can_be_moved, every_block_of_a_union_can_be_moved,
    large_blocks_stay_where_they_are, segments_that_are_not_stored_are_not_visited,
};
use short_memory::{
    commands_without_memory_are_refused_before_a_change, large_arguments_are_replicated_without_a_copy,
    large_blocks_are_clear_without_calloc,
};

/// These tests run once, not once per server.
pub(crate) const TESTS: &[Test] = tests![
    a_host_with_every_function_loads_the_module,
    a_host_as_old_as_redis_6_is_refused_politely,
    blocks_aligned_to_8_bytes_are_supported,
    blocks_aligned_by_their_size_are_supported,
    every_function_that_is_used_is_checked_at_load,
    every_failed_registration_is_logged,
    plain_names_of_settings_depend_on_what_the_host_accepts,
    options_of_valkey_are_set_if_the_host_knows_them,
    a_save_beside_reads_writes_what_a_save_alone_does,
    a_save_keeps_every_block_in_its_place,
    a_taken_name_is_explained,
    a_refused_load_leaves_no_settings,
    failed_replication_is_logged,
    a_flood_of_warnings_is_throttled_and_counted,
    a_host_that_loads_its_data_logs_every_warning,
    every_block_of_a_filter_can_be_moved,
    large_blocks_stay_where_they_are,
    every_block_of_a_union_can_be_moved,
    segments_that_are_not_stored_are_not_visited,
    a_second_load_looks_no_function_up,
    large_blocks_are_clear_without_calloc,
    commands_without_memory_are_refused_before_a_change,
    large_arguments_are_replicated_without_a_copy,
];

/// Functions that Redis 7.0 does not have and that are optional for the module.
const OPTIONAL: [&str; 7] = [
    "TryCalloc",
    "TryRealloc",
    "AddACLCategory",
    "SetCommandACLCategories",
    "CachedMicroseconds",
    "ClusterKeySlot",
    "RegisterDefragCallbacks",
];

/// The version of every development build of Redis and Valkey: 255.255.255.
const DEVELOPMENT_BUILD: c_int = 0xFF_FF_FF;

/// Redis' flag of a setting without a prefix. In Valkey 9.1 it means a number without a sign.
const UNPREFIXED: c_uint = 1 << 9;

/// Functions that the module uses and that came with Redis 7.0.
const NEW_IN_7: [&str; 13] = [
    "TryAlloc",
    "GetCommand",
    "SetCommandInfo",
    "RegisterNumericConfig",
    "RegisterStringConfig",
    "LoadConfigs",
    "ReplyWithMap",
    "ReplyWithBool",
    "GetCurrentUserName",
    "GetModuleUserFromUserName",
    "ACLCheckKeyPermissions",
    "AddACLCategory",
    "SetCommandACLCategories",
];

fn a_host_with_every_function_loads_the_module(site: &Site) {
    let mut host = Host::new(site);
    assert!(host.load(&["ERROR_RATE", "0.02"]), "{}", host.log());
    assert_eq!(host.log(), "");
    assert_eq!(host.default_of("error-rate"), "0.02");
    assert_eq!(host.call(&["bf.reserve", "k", "0.01", "100"]), "+OK");
    assert_eq!(host.call(&["bf.madd", "k", "a", "b", "a"]), "*3 1 1 0");
    assert_eq!(host.call(&["bf.add"]), "-ERR wrong number of arguments for 'bf.add' command");
    // As in Redis 7.0.
    let mut host = Host::with(site, |state| state.missing.extend(OPTIONAL));
    assert!(host.load(&[]), "{}", host.log());
    assert_eq!(host.call(&["bf.madd", "k", "a", "b", "a"]), "*3 1 1 0");
}

/// Redis on musl without jemalloc returns such blocks.
fn blocks_aligned_to_8_bytes_are_supported(site: &Site) {
    use_blocks(Host::with(site, |state| state.front_bytes = 8));
}

/// The servers' jemalloc aligns blocks of 24, 40 and 56 bytes to 8 bytes only.
fn blocks_aligned_by_their_size_are_supported(site: &Site) {
    use_blocks(Host::with(site, |state| state.has_quanta = true));
    // As in Redis 7.0.
    use_blocks(Host::with(site, |state| {
        state.has_quanta = true;
        state.missing.extend(OPTIONAL);
    }));
}

fn use_blocks(mut host: Host) {
    assert!(host.load(&[]), "{}", host.log());
    // BF.MERGE puts its sources into a set. The only key is vacant.
    let sources: Vec<String> = (0..500).map(|source| format!("source-{source}")).collect();
    let merge: Vec<&str> =
        ["bf.merge", "dest"].into_iter().chain(sources.iter().map(String::as_str)).collect();
    assert_eq!(host.call(&merge), "-ERR not found: the source 'source-0' does not exist");
    // Small and large blocks. The module must free exactly those that were allocated.
    assert_eq!(host.call(&["bf.reserve", "k", "0.01", "100000"]), "+OK");
    assert_eq!(host.call(&["bf.madd", "k", "a", "b", "a"]), "*3 1 1 0");
}

/// Asserts that the module refuses to load without a function, and names it in the log.
fn assert_refused(host: &mut Host, name: &str) {
    assert!(!host.load(&["ERROR_RATE", "0.02"]), "loaded without {name}");
    let log = host.log();
    let reason = format!("this server has no RedisModule_{name}; Redis 7.0 or Valkey 7.2 or later is needed");
    assert_eq!(log, if name == "Log" { "" } else { &reason });
    assert!(with(|state| state.commands.is_empty()));
}

fn a_host_as_old_as_redis_6_is_refused_politely(site: &Site) {
    let mut host = Host::with(site, |state| state.missing.extend(NEW_IN_7.iter().chain(&OPTIONAL)));
    assert_refused(&mut host, "TryAlloc");
}

/// Returns the functions of the API in the sources of `src/module`, without `RedisModule_`.
fn functions_in_use() -> BTreeSet<&'static str> {
    fn read(dir: &Path, text: &mut String) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, text);
            } else {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut text = String::new();
    read(&Path::new(ROOT).join("src/module"), &mut text);
    let text: &'static str = text.leak();
    let uses = text.split("api!(RedisModule_").skip(1);
    uses.map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap()).collect()
}

fn every_function_that_is_used_is_checked_at_load(site: &Site) {
    let mut used = functions_in_use();
    assert!(used.len() > 60, "{used:?}");
    // This function is not in the server's table: it reads the table.
    assert!(used.remove("GetApi"));
    for name in used {
        let mut host = Host::with(site, |state| state.missing.extend([name]));
        if OPTIONAL.contains(&name) {
            assert!(host.load(&[]), "{name}: {}", host.log());
        } else {
            assert_refused(&mut host, name);
        }
    }
}

fn every_failed_registration_is_logged(site: &Site) {
    for (function, reason) in [
        ("RegisterNumericConfig", "cannot register the setting bf.max-filter-bytes"),
        ("RegisterStringConfig", "cannot register the setting bf.error-rate"),
        ("LoadConfigs", "correct the invalid value of a bf setting"),
        ("CreateDataType", "the server refused the data type everbloom"),
        ("CreateCommand", "the server refused the command bf.reserve"),
        ("GetCommand", "the server refused the command bf.reserve"),
        ("SetCommandInfo", "the server refused the command bf.reserve"),
        ("RegisterInfoFunc", "the server refused the section of INFO"),
    ] {
        let mut host = Host::with(site, |state| state.failing.extend([function]));
        assert!(!host.load(&[]), "loaded although {function} failed");
        assert!(host.log().contains(reason), "{function}: {}", host.log());
    }
}

/// Returns the names without the module's prefix under which it has registered settings, or has tried to.
fn plain_names() -> Vec<String> {
    let plain = with(|state| state.settings.clone()).into_iter().filter(|(_, flags)| flags & UNPREFIXED != 0);
    plain.map(|(name, _)| name).collect()
}

fn plain_names_of_settings_depend_on_what_the_host_accepts(site: &Site) {
    for version in [DEVELOPMENT_BUILD, 0x07_04_00, 0x08_00_02] {
        // Every setting has two names: with the module's prefix and without it.
        let mut host = Host::with(site, |state| state.version = version);
        assert!(host.load(&["ERROR_RATE", "0.02"]), "{}", host.log());
        assert_eq!(host.log(), "");
        assert_eq!(
            (host.default_of("error-rate"), host.default_of("bf-error-rate")),
            ("0.02".into(), "0.02".into())
        );
        assert_eq!(plain_names().len(), with(|state| state.settings.len()));
        // The module tries one plain name only. Its refusal is one line of the log.
        let mut host = Host::with(site, |state| (state.version, state.refused_flags) = (version, UNPREFIXED));
        assert!(host.load(&["ERROR_RATE", "0.02"]), "{}", host.log());
        assert_eq!(host.default_of("error-rate"), "0.02");
        assert_eq!(plain_names(), ["bf.error-rate|bf-error-rate"]);
        let log = host.log();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("bf-error-rate") && log.contains("bf.error-rate"), "{log}");
        assert_eq!(host.call(&["bf.madd", "k", "a", "b", "a"]), "*3 1 1 0");
        // A host that is older than these names would log a warning for each, so none is tried.
        let mut host = Host::with(site, |state| {
            state.version = version;
            state.missing.extend(["RegisterDefragCallbacks"]);
        });
        assert!(host.load(&[]), "{}", host.log());
        assert_eq!((host.log(), plain_names()), (String::new(), vec![]));
        // In Valkey the flag has another meaning.
        let mut host = Host::with(site, |state| (state.version, state.is_valkey) = (version, true));
        assert!(host.load(&[]), "{}", host.log());
        assert_eq!((host.log(), plain_names()), (String::new(), vec![]));
    }
}

fn options_of_valkey_are_set_if_the_host_knows_them(site: &Site) {
    const ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    const FORKLESS: c_int = 1 << 6;
    for version in [DEVELOPMENT_BUILD, 0x08_00_00, 0x09_00_00, 0x09_02_00] {
        for (is_valkey, known_options, expected) in [
            (true, 0x7F, ATOMIC_SLOT_MIGRATION | FORKLESS),
            (true, 0x5F, FORKLESS),
            (true, 0x3F, ATOMIC_SLOT_MIGRATION),
            (true, 0x1F, 0),
            // Only Valkey defines these bits. Their meaning in a future Redis is unknown.
            (false, 0x7F, 0),
        ] {
            let mut host = Host::with(site, |state| {
                (state.version, state.is_valkey, state.known_options) = (version, is_valkey, known_options);
            });
            assert!(host.load(&[]), "{}", host.log());
            let set = with(|state| state.options) & (ATOMIC_SLOT_MIGRATION | FORKLESS);
            assert_eq!(set, expected, "{version:#x} {is_valkey} {known_options:#x}");
        }
    }
}

fn a_taken_name_is_explained(site: &Site) {
    let mut host = Host::with(site, |state| state.is_busy = true);
    assert!(!host.load(&[]));
    let log = host.log();
    for word in ["module named bf", "loadmodule", "MODULE LIST", "RedisBloom"] {
        assert!(log.contains(word), "no '{word}' in: {log}");
    }
}

/// MODULE LOAD of a loaded file calls the module again. Its threads may read the table of functions at that time.
fn a_second_load_looks_no_function_up(site: &Site) {
    let mut host = Host::new(site);
    assert!(host.load(&[]), "{}", host.log());
    let lookups = with(|state| state.lookups);
    assert!(lookups > 100, "{lookups}");
    for _ in 0..2 {
        assert!(!host.load(&[]));
        assert_eq!(with(|state| state.lookups), lookups, "the module wrote its table of functions again");
    }
    assert!(host.log().contains("a module named bf is loaded already"), "{}", host.log());
    assert_eq!(host.call(&["bf.madd", "k", "a", "b", "a"]), "*3 1 1 0");
}

fn a_refused_load_leaves_no_settings(site: &Site) {
    let mut host = Host::with(site, |state| state.failing.extend(["CreateCommand"]));
    assert!(!host.load(&["ERROR_RATE", "0.5", "INITIAL_SIZE", "7"]));
    assert_eq!((host.default_of("error-rate"), host.default_of("initial-size")), ("0.5".into(), "7".into()));
    // Loads the same module at the same address again. This happens in a server if the library cannot be unloaded.
    with(|state| state.failing.clear());
    assert!(host.load(&["INITIAL_SIZE", "8"]), "{}", host.log());
    assert_eq!((host.default_of("error-rate"), host.default_of("initial-size")), ("0.01".into(), "8".into()));
}

fn failed_replication_is_logged(site: &Site) {
    let mut host = Host::with(site, |state| state.failing.extend(["Replicate"]));
    assert!(host.load(&[]), "{}", host.log());
    // The change stays, so the reply is no error: the client must not repeat the command.
    assert_eq!(host.call(&["bf.add", "k", "a"]), "1");
    let log = host.log();
    assert!(log.contains("BF.INSERT; replicas"), "{log}");
    let mut host = Host::with(site, |state| state.failing.extend(["ReplicateVerbatim"]));
    assert!(host.load(&[]), "{}", host.log());
    assert_eq!(host.call(&["bf.add", "k", "a"]), "1");
    assert_eq!(host.log(), "");
    assert_eq!(host.call(&["bf.add", "k", "b"]), "1");
    let log = host.log();
    assert!(log.contains("bf.add; replicas"), "{log}");
}

/// Enough warnings to exceed the limit per second on a slow machine, too.
const MANY: u64 = 10_000;

/// Returns the numbers of written and omitted log lines about filters that cannot be loaded.
fn unloadable(log: &str) -> (u64, u64) {
    let lines = || log.lines().filter_map(|line| line.split_once("a filter cannot be loaded: "));
    let left_out = lines().filter_map(|(_, text)| text.strip_suffix(" more lines of this kind were omitted"));
    let summaries = left_out.clone().count() as u64;
    (lines().count() as u64 - summaries, left_out.map(|count| count.parse::<u64>().unwrap()).sum())
}

fn a_flood_of_warnings_is_throttled_and_counted(site: &Site) {
    let mut host = Host::new(site);
    assert!(host.load(&[]), "{}", host.log());
    for _ in 0..5 {
        host.load_unknown_value(false);
    }
    assert_eq!(unloadable(&host.log()), (5, 0));
    for _ in 5..MANY {
        host.load_unknown_value(false);
    }
    assert!(unloadable(&host.log()).0 < MANY / 10);
    wait_until("all are counted", || {
        host.tick();
        let (written, left_out) = unloadable(&host.log());
        written + left_out == MANY
    });
    let log = host.log();
    host.tick();
    assert_eq!(host.log(), log);
}

fn a_host_that_loads_its_data_logs_every_warning(site: &Site) {
    let mut host = Host::new(site);
    assert!(host.load(&[]), "{}", host.log());
    for _ in 0..MANY {
        host.load_unknown_value(true);
    }
    assert_eq!(unloadable(&host.log()), (MANY, 0));
}
