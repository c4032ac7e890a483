//! The output of COMMAND about the commands, and access lists for them.

use redis::Value;

use crate::harness::{Client, Site, Test, show, tests};

pub(crate) const TESTS: &[Test] = tests![
    commands_have_flags_arity_and_keys,
    commands_have_categories_if_the_server_supports_them,
    there_are_no_other_commands,
    commands_are_documented,
    documented_arguments_are_redisblooms,
    the_server_finds_the_key_of_every_command,
    access_by_category_works_if_supported,
    access_by_command_works,
    access_by_key_pattern_works,
];

/// Name, arity, required flags, categories besides `bloom`.
const COMMANDS: [(&str, i64, &[&str], &[&str]); 20] = [
    ("bf.reserve", -4, &["write", "denyoom"], &["write", "fast"]),
    ("bf.add", 3, &["write", "denyoom"], &["write"]),
    ("bf.madd", -3, &["write", "denyoom"], &["write"]),
    ("bf.insert", -4, &["write", "denyoom"], &["write"]),
    ("bf.del", -3, &["write"], &["write"]),
    ("bf.exists", 3, &["readonly", "fast"], &["read"]),
    ("bf.mexists", -3, &["readonly", "fast"], &["read"]),
    ("bf.bulkadd", -4, &["write", "denyoom"], &["write"]),
    ("bf.bulkexists", -4, &["readonly"], &["read"]),
    ("bf.info", -2, &["readonly", "fast"], &["read", "fast"]),
    ("bf.stats", 2, &["readonly", "fast"], &["read", "fast"]),
    ("bf.card", 2, &["readonly", "fast"], &["read", "fast"]),
    ("bf.debug", 2, &["readonly", "fast"], &["read"]),
    ("bf.clear", 2, &["write", "fast"], &["write", "fast"]),
    ("bf.scandump", 3, &["readonly", "fast"], &["read"]),
    ("bf.loadchunk", 4, &["write", "denyoom"], &["write"]),
    ("bf.load", 3, &["write", "denyoom"], &["write"]),
    ("bf.import", -4, &["write", "denyoom"], &["write"]),
    ("bf.export", 2, &["readonly"], &["read"]),
    ("bf.merge", -3, &["write", "denyoom"], &["write"]),
];

/// Returns whether a module can create access categories: Redis from 7.4, Valkey from 8.0.
fn has_categories(site: &Site) -> bool {
    site.from(Some((7, 4)), Some((8, 0)))
}

/// Returns the elements of an array or a set.
fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) | Value::Set(values) => values,
        other => panic!("expected a list, got {}", show(other)),
    }
}

/// Returns the words of a list, sorted, without quotes or marks.
fn word_list(value: &Value) -> Vec<String> {
    let mut words: Vec<String> =
        elements(value).iter().map(|word| show(word).trim_matches(['"', '+', '@']).to_owned()).collect();
    words.sort();
    words
}

/// Returns the entry of COMMAND INFO: name, arity, flags, first key, last key, step, categories, tips, key specs.
fn command_info(client: &mut Client, name: &str) -> Vec<Value> {
    let reply = client.array(&["COMMAND", "INFO", name]);
    elements(&reply[0]).to_vec()
}

fn commands_have_flags_arity_and_keys(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (name, arity, flags, _) in COMMANDS {
        let info = command_info(&mut client, name);
        assert_eq!(show(&info[0]), format!("\"{name}\""));
        assert_eq!(info[1], Value::Int(arity), "{name}");
        let shown = word_list(&info[2]);
        let mut expected: Vec<&str> = flags.iter().copied().chain(["module"]).collect();
        expected.sort_unstable();
        assert_eq!(shown, expected, "{name}");
        assert_eq!(info[3..6], [Value::Int(1), Value::Int(1), Value::Int(1)], "{name}");
        let specs = show(&info[8]);
        let access = if flags.contains(&"write") { "RW" } else { "RO" };
        assert!(specs.contains(access), "{name}: {specs}");
        assert_eq!(elements(&info[8]).len(), 1, "{name}: {specs}");
        let tips = show(&info[7]);
        let volatile = ["bf.info", "bf.stats", "bf.debug", "bf.scandump"].contains(&name);
        assert_eq!(tips.contains("dont_cache"), volatile, "{name}: {tips}");
    }
}

fn commands_have_categories_if_the_server_supports_them(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (name, _, _, categories) in COMMANDS {
        let shown = word_list(&command_info(&mut client, name)[6]);
        if has_categories(site) {
            let mut expected: Vec<&str> = categories.iter().copied().chain(["bloom"]).collect();
            expected.sort_unstable();
            assert_eq!(shown, expected, "{name}");
        } else {
            assert!(!shown.contains(&"bloom".to_owned()), "{name}: {shown:?}");
        }
    }
    if has_categories(site) {
        // ACL CAT is not used, because that of Valkey 8.0 omits the commands of modules.
        let members = word_list(&client.call(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", "bloom"]));
        assert_eq!(members.len(), COMMANDS.len(), "{members:?}");
    }
}

fn there_are_no_other_commands(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let mut shown = word_list(&client.call(&["COMMAND", "LIST", "FILTERBY", "MODULE", "bf"]));
    shown.sort();
    let mut expected: Vec<&str> = COMMANDS.iter().map(|command| command.0).collect();
    expected.sort_unstable();
    assert_eq!(shown, expected);
}

/// Returns the documentation of a command as a RESP3 map.
fn docs(client: &mut Client, name: &str) -> Vec<(String, Value)> {
    let Value::Map(mut commands) = client.call(&["COMMAND", "DOCS", name]) else {
        panic!("no map for {name}")
    };
    let Some((_, Value::Map(docs))) = commands.pop() else { panic!("no docs of {name}") };
    docs.into_iter().map(|(key, value)| (show(&key).trim_matches('"').to_owned(), value)).collect()
}

fn entry<'a>(docs: &'a [(String, Value)], key: &str) -> &'a Value {
    docs.iter().find(|(name, _)| name == key).map(|(_, value)| value).unwrap_or_else(|| panic!("no {key}"))
}

fn commands_are_documented(site: &Site) {
    let server = site.start();
    let mut client = server.client3();
    for (name, ..) in COMMANDS {
        let docs = docs(&mut client, name);
        assert!(show(entry(&docs, "summary")).len() > 15, "{name}");
        assert!(show(entry(&docs, "complexity")).starts_with("\"O("), "{name}");
        assert_eq!(show(entry(&docs, "since")), "\"1.0.0\"", "{name}");
        assert_eq!(show(entry(&docs, "group")), "\"module\"", "{name}");
        assert_eq!(show(entry(&docs, "module")), "\"bf\"", "{name}");
    }
}

/// Returns the arguments of a command: name, type, token, flags.
fn arguments(client: &mut Client, name: &str) -> Vec<String> {
    let docs = docs(client, name);
    let text = |argument: &Value, key: &str| match argument {
        Value::Map(pairs) => {
            let found = pairs.iter().find(|(name, _)| show(name) == format!("\"{key}\""));
            found.map_or(String::new(), |(_, value)| show(value).replace('"', ""))
        }
        other => panic!("{}", show(other)),
    };
    elements(entry(&docs, "arguments"))
        .iter()
        .map(|argument| {
            let words = ["name", "type", "token", "flags"].map(|key| text(argument, key));
            words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect()
}

fn documented_arguments_are_redisblooms(site: &Site) {
    let server = site.start();
    let mut client = server.client3();
    let names = |client: &mut Client, name: &str| -> Vec<String> {
        arguments(client, name).iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect()
    };
    // Followed by the arguments that RedisBloom does not have.
    let reserve = [
        "key",
        "error_rate",
        "capacity",
        "expansion",
        "nonscaling",
        "saturate",
        "keyed",
        "format",
        "counting",
        "window",
        "norefresh",
        "expiry",
        "ifnotexists",
    ];
    assert_eq!(names(&mut client, "bf.reserve"), reserve);
    let insert = ["key", "capacity", "error", "expansion", "nocreate", "nonscaling"];
    let more = [
        "saturate",
        "keyed",
        "key",
        "format",
        "counting",
        "window",
        "norefresh",
        "unix-time-milliseconds",
        "seed",
        "tightening",
        "unreserved",
        "validatescaleto",
        "expiry",
    ];
    let insert = [&insert[..], &more[..], &["items", "item"]].concat();
    assert_eq!(names(&mut client, "bf.insert"), insert);
    assert_eq!(names(&mut client, "bf.info"), ["key", "single_value"]);
    for name in ["bf.add", "bf.madd", "bf.exists", "bf.mexists"] {
        assert_eq!(names(&mut client, name), ["key", "item"], "{name}");
    }
    assert_eq!(names(&mut client, "bf.bulkadd"), ["key", "nocreate", "count", "packing", "data"]);
    assert_eq!(names(&mut client, "bf.bulkexists"), ["key", "count", "packing", "data"]);
    assert_eq!(names(&mut client, "bf.scandump"), ["key", "iterator"]);
    assert_eq!(names(&mut client, "bf.loadchunk"), ["key", "iterator", "data"]);
    assert_eq!(names(&mut client, "bf.load"), ["key", "blob"]);
    for name in ["bf.card", "bf.debug", "bf.stats"] {
        assert_eq!(names(&mut client, name), ["key"], "{name}");
    }
    let shown = arguments(&mut client, "bf.insert");
    assert_eq!(shown[0], "key key");
    assert!(shown[1].contains("CAPACITY") && shown[1].contains("optional"), "{shown:?}");
    assert!(shown[5].contains("NONSCALING") && shown[5].contains("optional"), "{shown:?}");
    let [.., word, items] = shown.as_slice() else { panic!("{shown:?}") };
    assert!(word.contains("ITEMS") && !word.contains("optional"), "{shown:?}");
    assert!(items.contains("string") && items.contains("multiple"), "{shown:?}");
    assert!(arguments(&mut client, "bf.info")[1].contains("oneof"));
}

/// A valid call of every command on the key `k`.
const CALLS: [&str; 17] = [
    "BF.RESERVE k 0.01 100 EXPANSION 2",
    "BF.CLEAR k",
    "BF.ADD k a",
    "BF.MADD k a b c",
    "BF.INSERT k CAPACITY 10 ITEMS a b",
    "BF.DEL k a b",
    "BF.EXISTS k a",
    "BF.MEXISTS k a b",
    "BF.BULKADD k NOCREATE COUNT LINES a",
    "BF.BULKEXISTS k FIXED 1 a",
    "BF.INFO k SIZE",
    "BF.CARD k",
    "BF.STATS k",
    "BF.DEBUG k",
    "BF.SCANDUMP k 0",
    "BF.LOADCHUNK k 1 data",
    "BF.LOAD k blob",
];

fn the_server_finds_the_key_of_every_command(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for call in CALLS {
        assert_eq!(client.say(&format!("COMMAND GETKEYS {call}")), "[\"k\"]", "{call}");
        let flags = client.say(&format!("COMMAND GETKEYSANDFLAGS {call}"));
        assert!(flags.starts_with("[[\"k\", "), "{call}: {flags}");
    }
}

fn user(client: &mut Client, server: &crate::harness::Server, rules: &str) -> Client {
    assert_eq!(client.say(&format!("ACL SETUSER u reset on nopass {rules}")), "+OK", "{rules}");
    let mut user = server.client();
    assert_eq!(user.say("AUTH u any"), "+OK");
    user
}

fn access_by_category_works_if_supported(site: &Site) {
    let server = site.start();
    let mut admin = server.client();
    if !has_categories(site) {
        let reply = admin.say("ACL SETUSER u on nopass ~* +@bloom");
        assert!(reply.starts_with("-ERR"), "{reply}");
        return;
    }
    let mut all = user(&mut admin, &server, "~* +@bloom");
    for call in CALLS {
        let reply = all.say(call);
        assert!(!reply.starts_with("-NOPERM"), "{call}: {reply}");
    }
    assert!(all.say("SET s x").starts_with("-NOPERM"));
    let mut readers = user(&mut admin, &server, "~* +@all -@write");
    assert_eq!(readers.say("BF.EXISTS k a"), "1");
    assert_eq!(readers.int("BF.CARD k"), 3);
    for call in
        ["BF.ADD k z", "BF.MADD k z", "BF.INSERT k ITEMS z", "BF.RESERVE n 0.1 9", "BF.LOADCHUNK k 1 x"]
    {
        assert!(readers.say(call).starts_with("-NOPERM"), "{call}");
    }
    let mut none = user(&mut admin, &server, "~* +@all -@bloom");
    assert_eq!(none.say("SET s x"), "+OK");
    for call in CALLS {
        assert!(none.say(call).starts_with("-NOPERM"), "{call}");
    }
}

fn access_by_command_works(site: &Site) {
    let server = site.start();
    let mut admin = server.client();
    admin.say("BF.ADD k a");
    let mut user = user(&mut admin, &server, "~* +bf.exists +bf.mexists");
    assert_eq!(user.say("BF.EXISTS k a"), "1");
    assert_eq!(user.say("BF.MEXISTS k a"), "[1]");
    assert!(user.say("BF.ADD k b").starts_with("-NOPERM"));
    assert!(user.say("BF.CARD k").starts_with("-NOPERM"));
}

fn access_by_key_pattern_works(site: &Site) {
    let server = site.start();
    let mut admin = server.client();
    admin.say("BF.ADD read:k a");
    admin.say("BF.ADD write:k a");
    let mut user = user(&mut admin, &server, "+@all %R~read:* %RW~write:*");
    assert_eq!(user.say("BF.EXISTS read:k a"), "1");
    assert_eq!(user.int("BF.CARD read:k"), 1);
    assert!(user.say("BF.SCANDUMP read:k 0").starts_with('['));
    for call in ["BF.ADD read:k b", "BF.MADD read:k b", "BF.INSERT read:k ITEMS b", "BF.LOADCHUNK read:k 1 x"]
    {
        assert!(user.say(call).starts_with("-NOPERM"), "{call}");
    }
    assert_eq!(user.say("BF.MADD write:k a b"), "[0, 1]");
    for call in CALLS {
        assert!(user.say(call).starts_with("-NOPERM"), "{call}");
    }
}
