//! The arguments of loadmodule, MODULE LOADEX, and the effect of errors in them.

use crate::config::{assert_made, get};
use crate::harness::{Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    load_arguments_work_in_every_spelling,
    arguments_of_cuckoo_filters_work,
    a_bad_load_argument_refuses_only_the_module,
    a_second_module_of_that_name_is_refused_and_explained,
    an_included_file_may_have_settings_but_not_the_loadmodule_line,
    options_can_be_given_to_module_loadex,
    a_bad_load_argument_stops_a_server_that_starts,
    a_bad_option_in_the_configuration_file_stops_a_server_that_starts,
];

fn load_arguments_work_in_every_spelling(site: &Site) {
    let spellings = [
        ["ERROR_RATE", "INITIAL_SIZE"],
        ["error_rate", "Initial_Size"],
        ["bf-error-rate", "bf-initial-size"],
        ["bf.error-rate", "bf.initial-size"],
    ];
    for [rate, size] in spellings {
        let server = site.launch().with_module_args(&[rate, "0.002", size, "400"]).start();
        let mut client = server.client();
        assert_made(&mut client, 400, 0.002, 2);
        assert_eq!(get(&mut client, "bf.error-rate"), "0.002");
        assert_eq!(get(&mut client, "bf.initial-size"), "400");
    }
    for [factor, bytes] in
        [["bf-expansion-factor", "bf-max-filter-bytes"], ["bf.expansion-factor", "bf.max-filter-bytes"]]
    {
        let server = site.launch().with_module_args(&[bytes, "1048576", factor, "7"]).start();
        let mut client = server.client();
        assert_made(&mut client, 100, 0.01, 7);
        assert_eq!(get(&mut client, "bf.max-filter-bytes"), "1048576");
    }
    // RedisBloom accepts a single empty argument.
    let server = site.launch().with_module_args(&[""]).start();
    assert_made(&mut server.client(), 100, 0.01, 2);
    // A setting in the file overrides an argument, because it comes later.
    let server =
        site.launch().with_module_args(&["INITIAL_SIZE", "5"]).with_option("bf.initial-size 6").start();
    assert_made(&mut server.client(), 6, 0.01, 2);
}

fn arguments_of_cuckoo_filters_work(site: &Site) {
    // Users of RedisBloom have such arguments in their configurations.
    let arguments = [
        ["CF_MAX_EXPANSIONS", "1"],
        ["INITIAL_SIZE", "400"],
        ["cf-bucket-size", "4"],
        ["bf.cuckoo-initial-size", "100"],
        ["Bf-Cuckoo-Max-Iterations", "7"],
        ["CF-EXPANSION-FACTOR", "8"],
    ];
    let server =
        site.launch().with_module_args(arguments.as_flattened()).with_option("bf.format redisbloom").start();
    let mut client = server.client();
    client.say("BF.ADD made x");
    assert_eq!(client.say("BF.INFO made CAPACITY"), "[400]");
    assert_eq!(client.say("CF.RESERVE k 100"), "+OK");
    let shown = "bktsize:4 buckets:32 items:0 deletes:0 filters:1 max_iterations:7 expansion:8";
    assert_eq!(client.say("CF.DEBUG k"), format!("\"{shown}\""));
    assert_eq!(client.say("CF.ADD k a"), "-Maximum expansions reached");
    for bad in
        [["CF_MAX_EXPANSIONS", ""], ["cf-bucket-size", "256"], ["CF_BUCKET_SIZE", "2"], ["cf-x%s", "%n"]]
    {
        let arguments: Vec<&str> = bad.into_iter().filter(|word| !word.is_empty()).collect();
        let log = site.launch().with_module_args(&arguments).expect_dead_at_start();
        assert_log_names(&log, &bad[..1]);
    }
}

fn a_second_module_of_that_name_is_refused_and_explained(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    assert_eq!(client.say("CONFIG SET bf.initial-size 55"), "+OK");
    let copy = server.dir().join("copy.so");
    std::fs::copy(&site.module, &copy).unwrap();
    // First a copy of the module file, then the file that is already loaded.
    for (path, lines) in [(&copy, 1), (&site.module, 2)] {
        let reply = client.ask(&["MODULE", "LOAD", path.to_str().unwrap(), "INITIAL_SIZE", "66"]);
        assert!(reply.starts_with("-ERR Error loading the extension"), "{reply}");
        let log = server.log();
        assert_eq!(log.matches("a module named bf is loaded already").count(), lines, "{log}");
        assert!(log.contains("MODULE LIST") && log.contains("loadmodule"), "{log}");
        // The loaded module keeps working.
        assert_eq!(get(&mut client, "bf.initial-size"), "55");
        assert_made(&mut client, 55, 0.01, 2);
    }
    let log = site.launch().with(format!("loadmodule {}", copy.display())).expect_dead_at_start();
    assert!(log.contains("a module named bf is loaded already"), "{log}");
}

fn an_included_file_may_have_settings_but_not_the_loadmodule_line(site: &Site) {
    let launch = site.launch().without_module();
    let included = launch.dir().join("everbloom.conf");
    let include = format!("include {}", included.display());
    std::fs::write(&included, format!("loadmodule {}\n", site.module.display())).unwrap();
    let server = launch.with(&include).start();
    assert_eq!(server.client().say("CONFIG REWRITE"), "+OK");
    let own = std::fs::read_to_string(server.dir().join("server.conf")).unwrap();
    assert!(own.contains("\nloadmodule "), "{own}");
    // After the rewrite, both files load the module. A server with two such lines does not start.
    let log = site.launch().with(&include).expect_dead_at_start();
    assert!(log.contains("a module named bf is loaded already"), "{log}");
    std::fs::write(&included, "bf.initial-size 77\n").unwrap();
    assert_made(&mut site.launch().with(&include).start().client(), 77, 0.01, 2);
}

const BAD_ARGUMENTS: &[&[&str]] = &[
    &["ERROR_RATE", "0"],
    &["ERROR_RATE", "1"],
    &["ERROR_RATE", "abc"],
    &["ERROR_RATE", "nan"],
    &["ERROR_RATE"],
    &["ERROR_RATE", "0.01", "INITIAL_SIZE"],
    &["INITIAL_SIZE", "0"],
    &["INITIAL_SIZE", "-5"],
    &["INITIAL_SIZE", "1e3"],
    &["INITIAL_SIZE", "1099511627777"],
    &["bf-expansion-factor", "32769"],
    &["bf-expansion-factor", "two"],
    &["bf.max-filter-bytes", "1"],
    &["NO_SUCH_OPTION", "1"],
    // A valid argument before an invalid one must have no effect.
    &["ERROR_RATE", "0.5", "NO_SUCH_OPTION", "1"],
    &["ERROR_RATE", "%s%n%s%n"],
    &["%s%n%s%n", "1"],
];

/// Asserts that a line of the log names the module and one of these words.
fn assert_log_names(log: &str, words: &[&str]) {
    let named = log.lines().any(|line| {
        let lower = line.to_lowercase();
        line.contains("bf")
            && words.iter().any(|word| lower.contains(&word.to_lowercase().replace("bf-", "")))
    });
    assert!(named, "nothing about {words:?} in the log:\n{log}");
}

fn a_bad_load_argument_refuses_only_the_module(site: &Site) {
    let server = site.launch().without_module().start();
    let mut client = server.client();
    let module = site.module.to_str().unwrap();
    for args in BAD_ARGUMENTS {
        let command: Vec<&str> = ["MODULE", "LOAD", module].iter().chain(*args).copied().collect();
        let reply = client.ask(&command);
        assert!(reply.starts_with("-ERR Error loading the extension"), "{args:?}: {reply}");
        assert_eq!(client.say("PING"), "+PONG");
        assert!(!client.say("MODULE LIST").contains("\"bf\""), "{args:?}");
        assert!(client.say("BF.ADD k a").starts_with("-ERR unknown command"), "{args:?}");
        assert_eq!(client.say("CONFIG GET bf.*"), "[]", "{args:?}");
    }
    let log = server.log();
    for word in ["ERROR_RATE", "INITIAL_SIZE", "expansion-factor", "max-filter-bytes", "NO_SUCH_OPTION"] {
        assert_log_names(&log, &[word]);
    }
    // The line shows the value and the form that it should have.
    for (name, value, line) in [
        ("ERROR_RATE", "1%", "Invalid argument for 'ERROR_RATE': '1%' is not a number, such as 0.01"),
        (
            "INITIAL_SIZE",
            "1e6",
            "Invalid argument for 'INITIAL_SIZE': '1e6' is not an integer, such as 1000000",
        ),
        (
            "bf.max-filter-bytes",
            "4GiB",
            "Invalid argument for 'bf.max-filter-bytes': '4GiB' is not a number of bytes, such as 4gb",
        ),
        ("INITIAL_SIZE", "0", "'INITIAL_SIZE' must be in the range [1, 1099511627776], not '0'"),
        (
            "bf.format",
            "bloom",
            "'bf.format' must be in the range everbloom, redisbloom, valkey-bloom, not 'bloom'",
        ),
    ] {
        client.ask(&["MODULE", "LOAD", module, name, value]);
        assert!(server.log().contains(line), "{line}\n{}", server.log());
    }
    // The next attempt, with valid arguments, works.
    assert_eq!(client.ask(&["MODULE", "LOAD", module, "INITIAL_SIZE", "9"]), "+OK");
    assert_made(&mut client, 9, 0.01, 2);
    assert_eq!(client.say("BF.MADD k a b"), "[1, 1]");
}

fn options_can_be_given_to_module_loadex(site: &Site) {
    let server = site.launch().without_module().start();
    let mut client = server.client();
    let module = site.module.to_str().unwrap();
    let mut load = |options: &str| -> String {
        let command: Vec<&str> = ["MODULE", "LOADEX", module].into_iter().chain(options.split(' ')).collect();
        client.ask(&command)
    };
    // Only values that the module itself refuses are tested. docs/operations.md advises against MODULE LOADEX.
    for bad in [
        "CONFIG bf.initial-size 0",
        "CONFIG bf.initial-size many",
        "CONFIG bf.error-rate 2",
        "CONFIG bf.max-filter-bytes 1",
        "CONFIG bf.error-rate 0.5 CONFIG bf.expansion-factor -1",
        "CONFIG bf.initial-size 7 ARGS ERROR_RATE 2",
    ] {
        let reply = load(bad);
        assert!(reply.starts_with("-ERR Error loading the extension"), "{bad}: {reply}");
    }
    assert_eq!(load("CONFIG bf.initial-size 7 CONFIG bf.expansion-factor 3 ARGS ERROR_RATE 0.4"), "+OK");
    assert_made(&mut client, 7, 0.4, 3);
}

fn a_bad_load_argument_stops_a_server_that_starts(site: &Site) {
    for args in BAD_ARGUMENTS {
        let log = site.launch().with_module_args(args).expect_dead_at_start();
        assert_log_names(&log, args);
        assert!(!log.contains("BUG REPORT") && !log.contains("panicked"), "{log}");
    }
}

fn a_bad_option_in_the_configuration_file_stops_a_server_that_starts(site: &Site) {
    for line in [
        "bf.error-rate 2",
        "bf.error-rate abc",
        "bf.initial-size 0",
        "bf.expansion-factor 32769",
        "bf.max-filter-bytes 1",
    ] {
        let log = site.launch().with_option(line).expect_dead_at_start();
        assert_log_names(&log, &[line.split(' ').next().unwrap()]);
        assert!(!log.contains("BUG REPORT") && !log.contains("panicked"), "{line}: {log}");
    }
    // The value of a setting is the whole rest of its line, and the arguments of loadmodule are before it.
    let log = site.launch().with_option("bf.format redisbloom CF_MAX_EXPANSIONS 32").expect_dead_at_start();
    assert!(log.contains("Value for `bf.format` must be in the range everbloom, redisbloom"), "{log}");
    let launch = site.launch().with_module_args(&["CF_MAX_EXPANSIONS", "32"]);
    launch.with_option("bf.format redisbloom").start();
    let log = site.launch().with_option("bf.no-such-option 1").expect_dead_at_start();
    assert!(log.contains("Module Configuration detected"), "{log}");
}
