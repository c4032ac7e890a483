//! The name of the module, the output of COMMAND about its commands, and access lists for them.

use everbloom_command::table::{ArgumentKind, ArgumentSpec, Presence};
use redis::Value;

use crate::harness::{Client, Server, Site, Test, show, tests};
use crate::import::redisson;

pub(crate) const TESTS: &[Test] = tests![
    the_module_is_named_bf,
    commands_have_flags_arity_keys_and_categories,
    commands_are_documented_as_in_their_table,
    the_server_finds_the_first_key_of_every_command,
    access_by_category_works_if_supported,
    access_by_command_and_key_pattern_works,
    access_to_further_keys_is_checked,
];

/// Name, arity, required flags, categories besides `bloom` or `cuckoo`.
const COMMANDS: [(&str, i64, &[&str], &[&str]); 37] = [
    ("bf.reserve", -4, &["write", "denyoom"], &["write", "fast"]),
    ("bf.add", -3, &["write", "denyoom"], &["write"]),
    ("bf.madd", -3, &["write", "denyoom"], &["write"]),
    ("bf.insert", -4, &["write", "denyoom"], &["write"]),
    ("bf.del", -3, &["write"], &["write"]),
    ("bf.exists", -3, &["readonly", "fast"], &["read"]),
    ("bf.mexists", -3, &["readonly", "fast"], &["read"]),
    ("bf.ttl", 3, &["readonly", "fast"], &["read"]),
    ("bf.pttl", 3, &["readonly", "fast"], &["read"]),
    ("bf.bulkadd", -4, &["write", "denyoom"], &["write"]),
    ("bf.bulkexists", -4, &["readonly"], &["read"]),
    ("bf.info", -2, &["readonly", "fast"], &["read", "fast"]),
    ("bf.stats", 2, &["readonly", "fast"], &["read", "fast"]),
    ("bf.card", 2, &["readonly", "fast"], &["read", "fast"]),
    ("bf.debug", 2, &["readonly", "fast"], &["read"]),
    ("bf.clear", 2, &["write", "fast"], &["write", "fast"]),
    ("bf.scandump", 3, &["readonly", "fast"], &["read"]),
    ("bf.follow", -2, &["readonly", "fast"], &["read", "dangerous"]),
    ("bf.loadchunk", 4, &["write", "denyoom"], &["write"]),
    ("bf.load", 3, &["write", "denyoom"], &["write"]),
    ("bf.import", -4, &["write", "denyoom"], &["write"]),
    ("bf.export", 2, &["readonly"], &["read"]),
    ("bf.merge", -3, &["write", "denyoom"], &["write"]),
    ("cf.reserve", -3, &["write", "denyoom"], &["write", "fast"]),
    ("cf.add", 3, &["write", "denyoom"], &["write"]),
    ("cf.addnx", 3, &["write", "denyoom"], &["write"]),
    ("cf.insert", -4, &["write", "denyoom"], &["write"]),
    ("cf.insertnx", -4, &["write", "denyoom"], &["write"]),
    ("cf.exists", 3, &["readonly", "fast"], &["read"]),
    ("cf.mexists", -3, &["readonly", "fast"], &["read"]),
    ("cf.count", 3, &["readonly", "fast"], &["read"]),
    ("cf.del", 3, &["write", "fast"], &["write"]),
    ("cf.info", 2, &["readonly", "fast"], &["read", "fast"]),
    ("cf.debug", 2, &["readonly", "fast"], &["read"]),
    ("cf.compact", -1, &["write", "fast"], &["write"]),
    ("cf.scandump", 3, &["readonly", "fast"], &["read"]),
    ("cf.loadchunk", 4, &["write", "denyoom"], &["write"]),
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

fn the_module_is_named_bf(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let list = client.say("MODULE LIST");
    assert!(list.contains("\"name\", \"bf\""), "{list}");
    // Release 1.2.3 has the version number 81203.
    let release: Vec<i64> = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap()).collect();
    let number = 80_000 + release[0] * 1000 + release[1] * 100 + release[2];
    assert!(list.contains(&format!("\"ver\", {number},")), "{list}");
    assert_eq!(client.info("bf_release").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let text = String::from_utf8(client.bytes(&["INFO", "modules"])).unwrap();
    assert!(text.contains("module:name=bf,"), "{text}");
    assert!(text.contains("handle-io-errors"), "{text}");
    // Its data types may be in use, so it cannot be unloaded. The attempt has no effect.
    client.say("BF.ADD k a");
    assert!(client.say("MODULE UNLOAD bf").starts_with("-ERR"));
    assert_eq!(client.say("BF.EXISTS k a"), "1");
}

fn commands_have_flags_arity_keys_and_categories(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    for (name, arity, flags, categories) in COMMANDS {
        // Name, arity, flags, first key, last key, step, categories, tips, key specs.
        let reply = client.array(&["COMMAND", "INFO", name]);
        let info = elements(&reply[0]);
        assert_eq!((show(&info[0]), &info[1]), (format!("\"{name}\""), &Value::Int(arity)));
        let sorted = |words: &[&str], more: &str| {
            let mut words: Vec<String> = words.iter().chain([&more]).map(|word| (*word).to_owned()).collect();
            words.sort_unstable();
            words
        };
        assert_eq!(word_list(&info[2]), sorted(flags, "module"), "{name}");
        assert_eq!(info[3..6], [Value::Int(1), Value::Int(1), Value::Int(1)], "{name}");
        let shown = word_list(&info[6]);
        if has_categories(site) {
            let own = if name.starts_with("cf.") { "cuckoo" } else { "bloom" };
            let mut expected = sorted(categories, own);
            // Followers learn more than by lookups.
            expected.retain(|category| name != "bf.follow" || category != own);
            assert_eq!(shown, expected, "{name}");
        } else {
            assert!(!shown.contains(&"bloom".to_owned()), "{name}: {shown:?}");
        }
        let (tips, specs) = (show(&info[7]), show(&info[8]));
        let volatile = ["info", "stats", "debug", "scandump", "follow", "ttl", "pttl"].contains(&&name[3..]);
        assert_eq!(tips.contains("dont_cache"), volatile, "{name}: {tips}");
        let access = if flags.contains(&"write") { "RW" } else { "RO" };
        assert!(specs.contains(access) && elements(&info[8]).len() == 1, "{name}: {specs}");
    }
    let mut expected = COMMANDS.map(|command| command.0);
    expected.sort_unstable();
    // ACL CAT is not used, because that of Valkey 8.0 omits the commands of modules.
    let filters = [("MODULE", "bf", ""), ("ACLCAT", "bloom", "bf."), ("ACLCAT", "cuckoo", "cf.")];
    for (word, value, prefix) in filters.into_iter().take(if has_categories(site) { 3 } else { 1 }) {
        let listed = word_list(&client.call(&["COMMAND", "LIST", "FILTERBY", word, value]));
        let expected: Vec<&str> = expected
            .iter()
            .copied()
            .filter(|name| name.starts_with(prefix) && (value != "bloom" || *name != "bf.follow"))
            .collect();
        assert_eq!(listed, expected, "{value}");
    }
}

/// Returns the value of a map's entry.
fn entry<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    let Value::Map(pairs) = map else { panic!("{}", show(map)) };
    pairs.iter().find(|(name, _)| show(name) == format!("\"{key}\"")).map(|(_, value)| value)
}

/// Returns an argument of COMMAND DOCS: name, type, token, flags.
fn shown_argument(argument: &Value) -> String {
    let text = |key: &str| entry(argument, key).map_or(String::new(), show);
    let words = ["name", "type", "token", "flags"].map(text).join(" ");
    words
        .split(|c: char| "\"[], +~".contains(c))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns an argument of the table of commands as [`shown_argument`] does.
fn documented_argument(argument: &ArgumentSpec) -> String {
    let kind = match argument.kind {
        ArgumentKind::Key => "key",
        ArgumentKind::String => "string",
        ArgumentKind::Integer => "integer",
        ArgumentKind::Double => "double",
        ArgumentKind::PureToken => "pure-token",
        ArgumentKind::OneOf(_) => "oneof",
    };
    let presence = match argument.presence {
        Presence::Required => "",
        Presence::Optional => "optional",
        Presence::Repeated => "multiple",
    };
    let words = [argument.name, kind, argument.token.unwrap_or_default(), presence];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// COMMAND DOCS must show the table of commands. The pure tests compare docs/commands.md with this table.
fn commands_are_documented_as_in_their_table(site: &Site) {
    let server = site.start();
    let mut client = server.client3();
    for command in everbloom_command::COMMANDS {
        let spec = command.spec();
        let name = spec.name.to_lowercase();
        let reply = client.call(&["COMMAND", "DOCS", &name]);
        let docs = entry(&reply, &name).unwrap();
        let text = |key: &str| show(entry(docs, key).unwrap_or(&Value::Nil)).replace('"', "");
        let expected = [spec.summary, spec.complexity, "1.0.0", "module", "bf"];
        assert_eq!(["summary", "complexity", "since", "group", "module"].map(text), expected, "{name}");
        let shown: Vec<String> =
            elements(entry(docs, "arguments").unwrap()).iter().map(shown_argument).collect();
        assert_eq!(shown, spec.syntax.iter().map(documented_argument).collect::<Vec<_>>(), "{name}");
    }
}

/// Calls of commands on the key `k`. BF.MERGE, BF.IMPORT and BF.EXPORT are not among them.
const CALLS: [&str; 21] = [
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
    "CF.RESERVE k 100",
    "CF.INSERT k ITEMS a b",
    "CF.DEL k a",
    "CF.INFO k",
];

fn the_server_finds_the_first_key_of_every_command(site: &Site) {
    let server = site.start();
    let mut client = server.client();
    let further = [
        "BF.MERGE k a b FORCE",
        "BF.IMPORT k SOURCE s SCHEME go-zero",
        "BF.IMPORT k GUAVA s REPLACE",
        "BF.EXPORT k",
    ];
    for call in CALLS.into_iter().chain(further) {
        assert_eq!(client.say(&format!("COMMAND GETKEYS {call}")), "[\"k\"]", "{call}");
        let flags = client.say(&format!("COMMAND GETKEYSANDFLAGS {call}"));
        assert!(flags.starts_with("[[\"k\", "), "{call}: {flags}");
    }
}

pub(crate) fn user(client: &mut Client, server: &Server, rules: &str) -> Client {
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
    // As in RedisBloom, each category has the commands of one prefix.
    for call in CALLS {
        let reply = all.say(call);
        assert_eq!(reply.starts_with("-NOPERM"), call.starts_with("CF."), "{call}: {reply}");
    }
    assert!(all.say("SET s x").starts_with("-NOPERM"));
    assert_eq!(admin.say("ACL SETUSER cuckoo reset on nopass ~* +@cuckoo"), "+OK");
    let mut cuckoo = server.client();
    assert_eq!(cuckoo.say("AUTH cuckoo any"), "+OK");
    assert_eq!(cuckoo.say("CF.ADD c a"), "1");
    assert!(cuckoo.say("BF.ADD k a").starts_with("-NOPERM"));
    let mut readers = user(&mut admin, &server, "~* +@all -@write");
    assert_eq!(readers.say("BF.EXISTS k a"), "1");
    assert_eq!(readers.int("BF.CARD k"), 3);
    for call in
        ["BF.ADD k z", "BF.MADD k z", "BF.INSERT k ITEMS z", "BF.RESERVE n 0.1 9", "BF.LOADCHUNK k 1 x"]
    {
        assert!(readers.say(call).starts_with("-NOPERM"), "{call}");
    }
    let mut none = user(&mut admin, &server, "~* +@all -@bloom -@cuckoo");
    assert_eq!(none.say("SET s x"), "+OK");
    for call in CALLS {
        assert!(none.say(call).starts_with("-NOPERM"), "{call}");
    }
}

fn access_by_command_and_key_pattern_works(site: &Site) {
    let server = site.start();
    let mut admin = server.client();
    admin.say("BF.ADD read:k a");
    admin.say("BF.ADD write:k a");
    let mut checker = user(&mut admin, &server, "~* +bf.exists +bf.mexists");
    assert_eq!(checker.say("BF.EXISTS read:k a"), "1");
    for call in ["BF.ADD read:k b", "BF.CARD read:k"] {
        assert!(checker.say(call).starts_with("-NOPERM"), "{call}");
    }
    let mut user = user(&mut admin, &server, "+@all %R~read:* %RW~write:*");
    assert_eq!(user.int("BF.CARD read:k"), 1);
    assert!(user.say("BF.SCANDUMP read:k 0").starts_with('['));
    assert_eq!(user.say("BF.MADD write:k a b"), "[0, 1]");
    let writes =
        ["BF.ADD read:k b", "BF.MADD read:k b", "BF.INSERT read:k ITEMS b", "BF.LOADCHUNK read:k 1 x"];
    for call in CALLS.into_iter().chain(writes) {
        assert!(user.say(call).starts_with("-NOPERM"), "{call}");
    }
    // A command that adds also says what was in the filter, so a permission to write alone is too little.
    let mut writer = crate::surface::user(&mut admin, &server, "+@all %W~write:* %R~read:*");
    for call in ["BF.ADD write:k c", "BF.EXISTS write:k a", "BF.CLEAR write:k", "BF.MERGE read:k write:k"] {
        assert!(writer.say(call).starts_with("-NOPERM"), "{call}");
    }
    assert_eq!(writer.say("BF.EXISTS read:k a"), "1");
}

/// The server checks access to the first key only. The module checks it for the sources of BF.MERGE and BF.IMPORT.
fn access_to_further_keys_is_checked(site: &Site) {
    let server = site.start();
    let mut admin = server.client();
    for key in ["mine:a", "readable:a", "secret"] {
        admin.say(&format!("BF.ADD {key} x"));
    }
    for key in ["secret:s", "mine:s", "readable:s"] {
        admin.say(&format!("SETBIT {key} 7 1"));
    }
    redisson(&mut admin, "secret:users");
    redisson(&mut admin, "half:users");
    let mut client = user(&mut admin, &server, "+@all ~mine:* %R~readable:* ~half:users");
    for line in [
        "BF.MERGE mine:d secret",
        "BF.MERGE mine:d mine:a secret FORCE",
        "BF.MERGE readable:a mine:a",
        "BF.MERGE secret mine:a",
        "BF.IMPORT mine:k SOURCE secret:s SCHEME go-zero BITS 900",
        "BF.IMPORT secret2 SOURCE mine:s SCHEME go-zero BITS 900",
        "BF.IMPORT readable:k SOURCE mine:s SCHEME go-zero BITS 900",
        "BF.IMPORT readable:k EMPTY SCHEME go-zero BITS 900",
        "BF.IMPORT secret2 GUAVA x",
        "BF.IMPORT mine:k SOURCE secret:users SCHEME redisson",
        "BF.EXPORT secret2",
    ] {
        let reply = client.say(line);
        assert!(reply.starts_with("-NOPERM"), "{line}: {reply}");
    }
    // The settings have a separate key, which this user may not read.
    let reply = client.say("BF.IMPORT mine:k SOURCE half:users SCHEME redisson");
    assert!(reply.contains("settings at '{half:users}:config'"), "{reply}");
    for line in [
        "BF.MERGE mine:d mine:a readable:a FORCE",
        "BF.IMPORT mine:k SOURCE mine:s SCHEME go-zero BITS 900",
        "BF.IMPORT mine:r SOURCE readable:s SCHEME go-zero BITS 900",
        "BF.IMPORT mine:e EMPTY SCHEME go-zero BITS 900",
    ] {
        assert_eq!(client.say(line), "+OK", "{line}");
    }
    // Also in a script and in a transaction.
    let script = "return redis.pcall('BF.MERGE', KEYS[1], ARGV[1])";
    assert!(client.ask(&["EVAL", script, "1", "mine:d", "secret"]).starts_with("-NOPERM"));
    assert_eq!(client.ask(&["EVAL", script, "1", "mine:d", "readable:a"]), "+OK");
    client.say("MULTI");
    client.say("BF.MERGE mine:d secret");
    assert!(client.say("EXEC").contains("NOPERM"));
    // The error names the key and what is missing: access to the key, or the command with which it is checked.
    let denied = "-NOPERM this user needs the permission to";
    assert_eq!(client.say("BF.MERGE mine:d mine:a secret"), format!("{denied} read the key 'secret'"));
    let expected = format!("{denied} run BF.CARD on the key 'secret'");
    for rules in ["+bf.merge +eval ~mine:* ~secret", "+bf.merge +eval ~mine:* (+@all -bf.card ~secret)"] {
        let mut client = user(&mut admin, &server, rules);
        assert_eq!(client.say("BF.MERGE mine:d secret"), expected, "{rules}");
        let in_script = client.ask(&["EVAL", script, "1", "mine:d", "secret"]);
        assert!(in_script.starts_with(&expected), "{rules}: {in_script}");
    }
}
