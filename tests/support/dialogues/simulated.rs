//! Runs a dialogue on the simulated server.

use everbloom_command::Settings;
use everbloom_command::words::Word;
use everbloom_filter::Format;

use super::Dialogue;
use crate::server::Server;

/// The time at the start of a dialogue: the start of a generation of a window of 14 seconds, and of one of 140 seconds.
const START_MS: u64 = 1_799_999_880_000;

/// Runs a dialogue, then checks that a replica gets the same filters from what was replicated, also years later.
pub fn run(dialogue: &Dialogue) {
    let mut server = Server::at(START_MS);
    dialogue.settings.iter().for_each(|setting| configure(&mut server.settings, setting));
    let (mut sent, mut has_primary) = (0, false);
    for (line, expected) in &dialogue.lines {
        let (line, expected) = (with_times(line), with_times(expected));
        let context = format!("{}: {line}", dialogue.name);
        if let Some(setting) = line.strip_prefix("CONFIG SET ") {
            configure(&mut server.settings, setting);
            continue;
        }
        match line.strip_prefix("@ ") {
            Some("sent") => {
                assert_eq!(server.replicated[sent..].join("|"), expected, "{context}");
                sent = server.replicated.len();
            }
            Some("client") => server.is_replicated = false,
            Some("primary") => (server.is_replicated, has_primary) = (true, true),
            Some(later_ms) => server.now_ms = after_start(later_ms).expect("a time"),
            None => {
                let effects = |server: &Server| {
                    (server.keys.len(), server.cuckoos.len(), server.replicated.len(), server.events.len())
                };
                let before = effects(&server);
                assert_eq!(server.run(&line), expected, "{context}");
                assert!(before == effects(&server) || !expected.starts_with('-'), "{context}");
            }
        }
    }
    let is_small = server.filters().all(|filter| filter.size_bytes() < 1 << 20);
    if is_small && !has_primary {
        server.assert_replicated(Settings::DEFAULT);
        server.assert_replayed_later();
    }
}

fn after_start(later_ms: &str) -> Option<u64> {
    START_MS.checked_add_signed(later_ms.parse().ok()?)
}

/// Returns a line with the times for `<5000>`.
fn with_times(line: &str) -> String {
    let mut parts = line.split('<');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| match part.split_once('>').map(|(text, rest)| (after_start(text), rest)) {
        Some((Some(time_ms), rest)) => format!("{line}{time_ms}{rest}"),
        _ => format!("{line}<{part}"),
    })
}

/// Changes a setting as `CONFIG SET` does.
fn configure(settings: &mut Settings, setting: &str) {
    let (name, value) = setting.split_once(' ').expect("a setting and its value");
    let number = || value.parse::<u16>().unwrap_or_else(|_| panic!("{setting}"));
    match name {
        "bf.format" => {
            let format = Format::ALL.into_iter().find(|format| format.word() == value);
            settings.format = format.unwrap_or_else(|| panic!("{setting}"));
        }
        "bf.initial-size" => settings.initial_size_items = number().into(),
        "bf.expansion-factor" => settings.expansion_factor = number().into(),
        "bf.max-filter-bytes" => settings.max_filter_bytes = number().into(),
        "bf.follow-total-bytes" => settings.follow_total_bytes = number().into(),
        "bf.missing-filter" => settings.missing_filter_is_error = value == "error",
        "bf.auto-create" => settings.auto_create = value == "yes",
        "bf.on-full" => settings.fixed_filters_saturate = value == "saturate",
        "bf.keyed" => settings.keyed = value == "yes",
        "bf.cuckoo-bucket-size" => settings.cuckoo.bucket_size_slots = number() as u8,
        "bf.cuckoo-initial-size" => settings.cuckoo.initial_size_items = number().into(),
        "bf.cuckoo-max-iterations" => settings.cuckoo.max_iterations = number(),
        "bf.cuckoo-expansion-factor" => settings.cuckoo.expansion_factor = number().into(),
        "bf.cuckoo-max-expansions" => settings.cuckoo.max_expansions = number().into(),
        _ => panic!("{setting}"),
    }
}
