//! The settings of the module: in the configuration file and at run time.

use std::path::Path;

use crate::harness::{Client, ROOT, Server, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    options_have_documented_defaults_and_ranges,
    keys_and_seeds_are_random,
    options_survive_a_config_rewrite,
    redisblooms_names_work_if_supported,
    the_example_configuration_starts_a_server,
];

/// A setting: its name, its default, valid values and invalid ones.
type Setting = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const SETTINGS: [Setting; 18] = [
    (
        "bf.error-rate",
        "0.01",
        &["0.001", "0.999999", "1e-9"],
        &["0", "1", "-0.5", "1.5", "nan", "inf", "abc", "0.01f", "1e-400", "\"\""],
    ),
    (
        "bf.initial-size",
        "100",
        &["77", "1", "1099511627776"],
        &["0", "-1", "1099511627777", "abc", "1.5", "9223372036854775808"],
    ),
    ("bf.expansion-factor", "2", &["5", "0", "32768"], &["-1", "32769", "4294967296", "abc", "1.5"]),
    (
        "bf.max-filter-bytes",
        "68719476736",
        &["1048576", "1024", "70368744177664"],
        &["0", "1023", "-1", "70368744177665", "abc", "1xb"],
    ),
    ("bf.format", "everbloom", &["redisbloom", "valkey-bloom"], &["other", "0", "redis", "\"\""]),
    ("bf.missing-filter", "no", &["error"], &["yes", "0", "\"\""]),
    ("bf.auto-create", "yes", &["no"], &["error", "1"]),
    ("bf.on-full", "refuse", &["saturate"], &["yes", "no", "1", "\"\""]),
    ("bf.keyed", "no", &["yes"], &["1", "true", "\"\""]),
    ("bf.assume-redisbloom-1-1", "no", &["yes"], &["1", "true", "on", "\"\""]),
    ("bf.huge-pages", "yes", &["no"], &["1", "\"\""]),
    ("bf.follow-log-bytes", "1048576", &["1024", "68719476736"], &["0", "1023", "68719476737", "x"]),
    ("bf.follow-total-bytes", "67108864", &["0", "68719476736"], &["-1", "68719476737", "x"]),
    ("bf.cuckoo-bucket-size", "2", &["1", "255"], &["0", "256", "-1", "abc"]),
    ("bf.cuckoo-initial-size", "1024", &["4", "1073741824"], &["3", "1073741825", "abc"]),
    ("bf.cuckoo-max-iterations", "20", &["1", "65535"], &["0", "65536", "1.5"]),
    ("bf.cuckoo-expansion-factor", "1", &["0", "32768"], &["-1", "32769"]),
    ("bf.cuckoo-max-expansions", "32", &["1", "65536"], &["0", "65537"]),
];

/// Returns the value of a setting as CONFIG GET shows it.
pub(crate) fn get(client: &mut Client, option: &str) -> String {
    let reply = client.say(&format!("CONFIG GET {option}"));
    let prefix = format!("[\"{option}\", \"");
    let value = reply.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix("\"]"));
    value.unwrap_or_else(|| panic!("CONFIG GET {option}: {reply}")).to_owned()
}

/// Asserts that a filter created without options has this capacity, error rate and expansion.
pub(crate) fn assert_made(client: &mut Client, capacity: u64, rate: f64, expansion: u32) {
    client.say("DEL made");
    assert_eq!(client.say("BF.ADD made x"), "1");
    let expansion = if expansion == 0 { "nil".to_owned() } else { expansion.to_string() };
    for (field, expected) in [
        ("CAPACITY", format!("[{capacity}]")),
        ("ERROR-RATE", format!("[\"{rate}\"]")),
        ("EXPANSION", format!("[{expansion}]")),
    ] {
        assert_eq!(client.say(&format!("BF.INFO made {field}")), expected);
    }
}

fn options_have_documented_defaults_and_ranges(site: &Site) {
    let page = include_str!("../../docs/operations.md");
    let server = site.start();
    let mut client = server.client();
    assert_made(&mut client, 100, 0.01, 2);
    for (option, default, valid, invalid) in SETTINGS {
        assert_eq!(get(&mut client, option), default, "{option}");
        assert!(page.contains(&format!("\n| `{option}` | ")), "{option}");
        for value in invalid {
            let reply = client.say(&format!("CONFIG SET {option} {value}"));
            let expected = format!("-ERR CONFIG SET failed (possibly related to argument '{option}')");
            assert!(reply.starts_with(&expected), "{option} {value}: {reply}");
            assert!(reply.len() > expected.len() + 3, "{option} {value}: no reason in {reply}");
            assert_eq!(get(&mut client, option), default, "{option} {value}");
        }
        for value in valid.iter().chain([&default]) {
            assert_eq!(client.say(&format!("CONFIG SET {option} {value}")), "+OK", "{option} {value}");
            assert_eq!(get(&mut client, option), *value);
        }
    }
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 2mb"), "+OK");
    assert_eq!(get(&mut client, "bf.max-filter-bytes"), "2097152");
    // Several at once: all or none.
    assert_eq!(client.say("CONFIG SET bf.initial-size 8 bf.expansion-factor 3 bf.error-rate 0.5"), "+OK");
    assert_made(&mut client, 8, 0.5, 3);
    assert!(client.say("CONFIG SET bf.initial-size 9 bf.error-rate 2").starts_with("-ERR CONFIG SET failed"));
    assert_made(&mut client, 8, 0.5, 3);
}

/// Random keys of hashes and seeds differ between filters, and no reply shows them.
fn keys_and_seeds_are_random(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (setting, options, is_random) in [
        ("bf.keyed no", "ITEMS a", false),
        ("bf.keyed no", "KEY 0123456789abcdef ITEMS a", false),
        ("bf.keyed no", "KEYED ITEMS a", true),
        ("bf.keyed yes", "ITEMS a", true),
        ("bf.format valkey-bloom", "ITEMS a", true),
    ] {
        client.say(&format!("CONFIG SET {setting}"));
        for key in ["one", "other"] {
            client.say(&format!("DEL {key}"));
            assert_eq!(client.say(&format!("BF.INSERT {key} {options}")), "[1]");
        }
        assert_eq!(client.digest("one") != client.digest("other"), is_random, "{setting} {options}");
        assert_eq!(client.say("BF.INFO one"), client.say("BF.INFO other"), "{setting} {options}");
    }
}

fn options_survive_a_config_rewrite(site: &Site) {
    let server =
        site.launch().with_option("bf.error-rate 2e-3").with_option("bf.max-filter-bytes 4mb").start();
    let mut client = server.client();
    assert_eq!(client.say("CONFIG SET bf.initial-size 321 bf.expansion-factor 6"), "+OK");
    assert_eq!(client.say("CONFIG REWRITE"), "+OK");
    let rewritten = std::fs::read_to_string(server.dir().join("server.conf")).unwrap();
    // The rewritten lines start a server with the same settings.
    let is_setting = |line: &&str| ["bf.", "bf-", "cf-"].iter().any(|prefix| line.starts_with(prefix));
    let kept: Vec<&str> = rewritten.lines().filter(is_setting).collect();
    // One line for each, also on servers where a setting has two names. Only this name is read by every server.
    let mut names: Vec<&str> = kept.iter().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["bf.error-rate", "bf.expansion-factor", "bf.initial-size", "bf.max-filter-bytes"],
        "{rewritten}"
    );
    let second = kept.iter().fold(site.launch(), |launch, line| launch.with_option(*line)).start();
    let mut client = second.client();
    assert_made(&mut client, 321, 0.002, 6);
    assert_eq!(get(&mut client, "bf.max-filter-bytes"), "4194304");
    assert_eq!(client.say("CONFIG REWRITE"), "+OK");
}

/// RedisBloom 8's names of settings, the module's names for the same settings, and a value to set.
const UNPREFIXED: [(&str, &str, &str); 8] = [
    ("bf-error-rate", "bf.error-rate", "0.004"),
    ("bf-initial-size", "bf.initial-size", "44"),
    ("bf-expansion-factor", "bf.expansion-factor", "4"),
    ("cf-bucket-size", "bf.cuckoo-bucket-size", "3"),
    ("cf-initial-size", "bf.cuckoo-initial-size", "48"),
    ("cf-max-iterations", "bf.cuckoo-max-iterations", "9"),
    ("cf-expansion-factor", "bf.cuckoo-expansion-factor", "2"),
    ("cf-max-expansions", "bf.cuckoo-max-expansions", "5"),
];

fn redisblooms_names_work_if_supported(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let able = if site.is_in_development() {
        client.say("CONFIG GET bf-error-rate") != "[]"
    } else {
        site.from(Some((8, 0)), None)
    };
    for (name, prefixed, value) in UNPREFIXED {
        if able {
            assert_eq!(get(&mut client, name), get(&mut client, prefixed));
            assert_eq!(client.say(&format!("CONFIG SET {name} {value}")), "+OK", "{name}");
            assert_eq!(get(&mut client, prefixed), value);
            assert_eq!(get(&mut client, name), value);
        } else {
            assert_eq!(client.say(&format!("CONFIG GET {name}")), "[]", "{name}");
            client.say(&format!("CONFIG SET {prefixed} {value}"));
        }
    }
    assert_made(&mut client, 44, 0.004, 4);
    if able {
        let reply = client.say("CONFIG SET bf-error-rate 2");
        assert!(reply.starts_with("-ERR CONFIG SET failed"), "{reply}");
        client.say("CONFIG SET bf.initial-size 45");
        assert_eq!(get(&mut client, "bf-initial-size"), "45");
        let server = site.launch().with_option("bf-initial-size 46").start();
        assert_made(&mut server.client(), 46, 0.01, 2);
        // The default, given under the second name, wins over a load argument, and CONFIG REWRITE writes one line.
        let launch =
            site.launch().with_module_args(&["bf.initial-size", "50"]).with_option("bf-initial-size 100");
        let server = launch.start();
        let mut client = server.client();
        assert_made(&mut client, 100, 0.01, 2);
        assert_eq!(client.say("CONFIG SET cf-bucket-size 7"), "+OK");
        assert_eq!(client.say("CONFIG REWRITE"), "+OK");
        let file = std::fs::read_to_string(server.dir().join("server.conf")).unwrap();
        let lines = |word: &str| file.lines().filter(|line| line.contains(word)).count();
        assert_eq!((lines("initial-size"), lines("bucket-size")), (2, 1), "{file}");
        assert!(file.contains("\nbf.initial-size \"100\"\n"), "{file}");
        assert!(file.contains("\nbf.cuckoo-bucket-size \"7\"\n"), "{file}");
        // A file with both names does not start a server. The server names the line.
        let launch = site.launch().with_option("bf-initial-size 46").with_option("bf.initial-size 47");
        let log = launch.expect_dead_at_start();
        assert!(log.contains(">>> 'bf-initial-size 46'"), "{log}");
    }
}

fn the_example_configuration_starts_a_server(site: &Site) {
    let path = Path::new(ROOT).join("redis.conf.example");
    let example =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Starts a server with lines of the file, but not with `loadmodule`: the test loads its own module file.
    let start = |lines: Vec<String>| -> Server {
        lines.iter().fold(site.launch(), |launch, line| launch.with_option(line)).start()
    };
    let plain = example.lines().filter(|line| !line.starts_with("loadmodule")).map(str::to_owned).collect();
    assert_made(&mut start(plain).client(), 100, 0.01, 2);
    // With every commented setting enabled. This changes nothing, because they are the defaults.
    let options: Vec<String> = example
        .lines()
        .filter_map(|line| line.strip_prefix("# bf."))
        .filter(|line| line.split_whitespace().count() == 2 && !line.contains(':'))
        .map(|line| format!("bf.{line}"))
        .collect();
    assert_eq!(options.len(), SETTINGS.len(), "{options:?}");
    let server = start(options);
    for (option, value, ..) in SETTINGS {
        assert_eq!(get(&mut server.client(), option), value, "{option}");
    }
}
