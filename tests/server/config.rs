//! The settings of the module: in the configuration file and at run time.

use std::path::Path;

use crate::harness::{Client, Server, Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    options_have_documented_defaults,
    options_can_be_set_at_run_time,
    options_out_of_range_are_refused,
    options_in_the_configuration_file_are_applied,
    options_survive_a_config_rewrite,
    an_expansion_factor_of_zero_makes_filters_fixed,
    options_do_not_change_existing_filters,
    redisblooms_names_work_if_supported,
    the_example_configuration_starts_a_server,
    the_page_of_operations_has_every_setting,
];

const DEFAULTS: [(&str, &str); 11] = [
    ("bf.error-rate", "0.01"),
    ("bf.initial-size", "100"),
    ("bf.expansion-factor", "2"),
    ("bf.max-filter-bytes", "68719476736"),
    ("bf.format", "everbloom"),
    ("bf.missing-filter", "no"),
    ("bf.auto-create", "yes"),
    ("bf.on-full", "refuse"),
    ("bf.keyed", "no"),
    ("bf.assume-redisbloom-1-1", "no"),
    ("bf.huge-pages", "yes"),
];

/// Returns the value of a setting as CONFIG GET shows it.
pub(crate) fn get(client: &mut Client, option: &str) -> String {
    let reply = client.say(&format!("CONFIG GET {option}"));
    let prefix = format!("[\"{option}\", \"");
    let value = reply.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix("\"]"));
    value.unwrap_or_else(|| panic!("CONFIG GET {option}: {reply}")).to_owned()
}

/// Returns the capacity, the error rate and the expansion of a filter that is created without options.
fn made(client: &mut Client) -> (String, f64, String) {
    client.say("DEL made");
    assert_eq!(client.say("BF.ADD made x"), "1");
    let rate = client.say("BF.INFO made ERROR-RATE");
    let capacity = client.say("BF.INFO made CAPACITY");
    (capacity, rate.trim_matches(['[', ']', '"']).parse().unwrap(), client.say("BF.INFO made EXPANSION"))
}

pub(crate) fn assert_made(client: &mut Client, capacity: u64, rate: f64, expansion: u32) {
    let (actual_capacity, actual_rate, actual_expansion) = made(client);
    assert_eq!(actual_capacity, format!("[{capacity}]"));
    let expected_expansion = if expansion == 0 { "[nil]".to_owned() } else { format!("[{expansion}]") };
    assert!((actual_rate - rate).abs() < 1e-12, "{actual_rate}");
    assert_eq!(actual_expansion, expected_expansion);
}

fn options_have_documented_defaults(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (option, value) in DEFAULTS {
        assert_eq!(get(&mut client, option), value, "{option}");
    }
    assert_made(&mut client, 100, 0.01, 2);
}

fn options_can_be_set_at_run_time(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (option, value) in [
        ("bf.error-rate", "0.001"),
        ("bf.initial-size", "77"),
        ("bf.expansion-factor", "5"),
        ("bf.max-filter-bytes", "1048576"),
        ("bf.format", "everbloom"),
        ("bf.missing-filter", "error"),
        ("bf.auto-create", "yes"),
        ("bf.on-full", "saturate"),
        ("bf.keyed", "yes"),
        ("bf.assume-redisbloom-1-1", "yes"),
        ("bf.huge-pages", "no"),
    ] {
        assert_eq!(client.say(&format!("CONFIG SET {option} {value}")), "+OK");
        assert_eq!(get(&mut client, option), value);
    }
    assert_made(&mut client, 77, 0.001, 5);
    assert_eq!(client.say("CONFIG SET bf.max-filter-bytes 2mb"), "+OK");
    assert_eq!(get(&mut client, "bf.max-filter-bytes"), "2097152");
    // Several at once: all or none.
    assert_eq!(client.say("CONFIG SET bf.initial-size 8 bf.expansion-factor 3 bf.error-rate 0.5"), "+OK");
    assert_made(&mut client, 8, 0.5, 3);
    assert!(client.say("CONFIG SET bf.initial-size 9 bf.error-rate 2").starts_with("-ERR CONFIG SET failed"));
    assert_made(&mut client, 8, 0.5, 3);
}

fn options_out_of_range_are_refused(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let cases = [
        ("bf.error-rate", vec!["0", "1", "-0.5", "1.5", "nan", "inf", "abc", "0.01f", "1e-400", "\"\""]),
        ("bf.initial-size", vec!["0", "-1", "1099511627777", "abc", "1.5", "9223372036854775808"]),
        ("bf.expansion-factor", vec!["-1", "32769", "4294967296", "abc", "1.5"]),
        ("bf.max-filter-bytes", vec!["0", "1023", "-1", "70368744177665", "abc", "1xb"]),
        ("bf.format", vec!["other", "0", "redis", "\"\""]),
        ("bf.missing-filter", vec!["yes", "0", "\"\""]),
        ("bf.auto-create", vec!["error", "1"]),
        ("bf.keyed", vec!["1", "true", "\"\""]),
        ("bf.on-full", vec!["yes", "no", "1", "\"\""]),
        ("bf.assume-redisbloom-1-1", vec!["1", "true", "on", "\"\""]),
    ];
    for (option, values) in cases {
        let before = get(&mut client, option);
        for value in values {
            let reply = client.say(&format!("CONFIG SET {option} {value}"));
            let expected = format!("-ERR CONFIG SET failed (possibly related to argument '{option}')");
            assert!(reply.starts_with(&expected), "{option} {value}: {reply}");
            assert!(reply.len() > expected.len() + 3, "{option} {value}: no reason in {reply}");
            assert_eq!(get(&mut client, option), before);
        }
    }
    for (option, value) in [
        ("bf.error-rate", "0.999999"),
        ("bf.error-rate", "1e-9"),
        ("bf.initial-size", "1"),
        ("bf.initial-size", "1099511627776"),
        ("bf.expansion-factor", "0"),
        ("bf.expansion-factor", "32768"),
        ("bf.max-filter-bytes", "1024"),
        ("bf.max-filter-bytes", "70368744177664"),
        ("bf.format", "redisbloom"),
        ("bf.format", "valkey-bloom"),
        ("bf.missing-filter", "error"),
        ("bf.missing-filter", "no"),
        ("bf.auto-create", "no"),
        ("bf.auto-create", "yes"),
        ("bf.on-full", "saturate"),
        ("bf.on-full", "refuse"),
        ("bf.keyed", "yes"),
        ("bf.keyed", "no"),
        ("bf.assume-redisbloom-1-1", "yes"),
        ("bf.assume-redisbloom-1-1", "no"),
    ] {
        assert_eq!(client.say(&format!("CONFIG SET {option} {value}")), "+OK", "{option} {value}");
        assert_eq!(get(&mut client, option), value);
    }
}

fn options_in_the_configuration_file_are_applied(site: &Site) {
    let server = site
        .launch()
        .with_option("bf.error-rate 1e-3")
        .with_option("bf.initial-size 500")
        .with_option("bf.expansion-factor 4")
        .with_option("bf.max-filter-bytes 1mb")
        .start();
    let mut client = server.client();
    assert_made(&mut client, 500, 0.001, 4);
    assert_eq!(get(&mut client, "bf.max-filter-bytes"), "1048576");
    assert!(client.say("BF.RESERVE k 0.01 10000000").starts_with("-ERR filter would take "));
}

fn options_survive_a_config_rewrite(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for line in
        ["bf.error-rate 0.002", "bf.initial-size 321", "bf.expansion-factor 6", "bf.max-filter-bytes 4194304"]
    {
        assert_eq!(client.say(&format!("CONFIG SET {line}")), "+OK");
    }
    assert_eq!(client.say("CONFIG REWRITE"), "+OK");
    let rewritten = std::fs::read_to_string(server.dir().join("server.conf")).unwrap();
    // The same file starts a server with the same settings.
    let kept: Vec<&str> = rewritten.lines().filter(|line| line.starts_with("bf")).collect();
    assert!(kept.len() >= 4, "{rewritten}");
    let mut launch = site.launch();
    for line in kept {
        launch = launch.with_option(line);
    }
    let second = launch.start();
    let mut client = second.client();
    assert_made(&mut client, 321, 0.002, 6);
    assert_eq!(get(&mut client, "bf.max-filter-bytes"), "4194304");
    assert_eq!(client.say("CONFIG REWRITE"), "+OK");
}

fn an_expansion_factor_of_zero_makes_filters_fixed(site: &Site) {
    let server = site.launch().with_option("bf.expansion-factor 0").with_option("bf.initial-size 2").start();
    let mut client = server.client();
    assert_made(&mut client, 2, 0.01, 0);
    assert_eq!(client.say("BF.MADD k a b c"), "[1, 1, -ERR non scaling filter is full]");
    assert_eq!(client.say("BF.RESERVE r 0.01 1"), "+OK");
    assert_eq!(client.say("BF.INFO r EXPANSION"), "[nil]");
    // As in RedisBloom, BF.RESERVE cannot request growth then.
    assert_eq!(client.say("BF.RESERVE s 0.01 1 EXPANSION 2"), "-Nonscaling filters cannot expand");
    assert_eq!(client.say("BF.RESERVE s 0.01 1 EXPANSION 0"), "+OK");
}

fn options_do_not_change_existing_filters(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    client.say("BF.ADD k a");
    let before = (client.say("BF.DEBUG k"), client.digest("k"));
    for line in ["bf.error-rate 0.3", "bf.initial-size 7", "bf.expansion-factor 0"] {
        client.say(&format!("CONFIG SET {line}"));
    }
    assert_eq!((client.say("BF.DEBUG k"), client.digest("k")), before);
    for item in 0..150 {
        client.say(&format!("BF.ADD k item-{item}"));
    }
    // It grows as before: its capacity is that of its items.
    assert_eq!(client.say("BF.INFO k FILTERS"), "[1]");
    assert_eq!(client.say("BF.INFO k CAPACITY"), format!("[{}]", client.say("BF.CARD k")));
}

/// RedisBloom 8's names, without a prefix.
const UNPREFIXED: [(&str, &str, &str); 3] = [
    ("bf-error-rate", "bf.error-rate", "0.004"),
    ("bf-initial-size", "bf.initial-size", "44"),
    ("bf-expansion-factor", "bf.expansion-factor", "4"),
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
    }
}

fn the_example_configuration_starts_a_server(site: &Site) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("redis.conf.example");
    let example =
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // The file as it is, except for the module, which this test loads.
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
    assert_eq!(options.len(), DEFAULTS.len(), "{options:?}");
    let server = start(options);
    for (option, value) in DEFAULTS {
        assert_eq!(get(&mut server.client(), option), value, "{option}");
    }
}

fn the_page_of_operations_has_every_setting(_: &Site) {
    let page = include_str!("../../docs/operations.md");
    for (option, _) in DEFAULTS {
        assert!(page.contains(&format!("\n| `{option}` | ")), "{option}");
    }
}
