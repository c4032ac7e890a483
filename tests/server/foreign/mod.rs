//! Filters that other modules wrote, in real servers: the recordings of tests/fixtures.

mod hostile;
mod loading;
mod redisbloom;
pub(crate) mod streams;
mod valkeybloom;

use std::ops::Deref;

use crate::harness::{Client, Launch, Server, Site, Test, reseal, show};
use crate::support::fixtures;

pub(crate) const SUBJECTS: &[(&str, &[Test])] = &[
    ("foreign-loading", loading::TESTS),
    ("foreign-hostile", hostile::TESTS),
    ("foreign-redisbloom", redisbloom::TESTS),
    ("foreign-valkeybloom", valkeybloom::TESTS),
    ("foreign-streams", streams::TESTS),
];

/// The producer whose filters do not show their hash.
pub(crate) const AMBIGUOUS: &str = "redisbloom-1.1.1";

/// The setting for these filters.
pub(crate) const ASSUME: &str = "bf.assume-redisbloom-1-1 yes";

/// One recorded filter.
pub(crate) struct Case(fixtures::Case);

impl Deref for Case {
    type Target = fixtures::Case;

    fn deref(&self) -> &fixtures::Case {
        &self.0
    }
}

/// Returns every recorded filter of other modules.
pub(crate) fn cases() -> Vec<Case> {
    ["redisbloom", "valkey-bloom"].into_iter().flat_map(fixtures::cases).map(Case).collect()
}

/// Returns every filter that a release of this module saved.
pub(crate) fn own_cases(release: &str) -> Vec<Case> {
    fixtures::cases(release).into_iter().map(Case).collect()
}

impl Case {
    pub(crate) fn is_redisbloom(&self) -> bool {
        self.producer.starts_with("redisbloom")
    }

    pub(crate) fn type_name(&self) -> &'static str {
        if self.is_redisbloom() { "MBbloom--" } else { "bloomfltr" }
    }

    /// Returns whether it was recorded in the current encoding.
    pub(crate) fn is_newest_encoding(&self) -> bool {
        let older = ["redisbloom-1.0.3", AMBIGUOUS, "redisbloom-2.0.3", "valkey-bloom-0.1.0"];
        !older.contains(&self.producer)
    }

    /// Returns whether it was created with NONSCALING.
    pub(crate) fn is_fixed(&self) -> bool {
        self.json["case"] == "fixed"
    }

    /// Returns the payload for RESTORE on this server, which refuses newer snapshot versions than its own.
    pub(crate) fn payload_for(&self, site: &Site) -> Vec<u8> {
        let mut payload = self.payload.clone();
        if !site.from(Some((7, 2)), Some((7, 2))) {
            set_snapshot_version(&mut payload, 10);
        }
        payload
    }

    /// Returns the replies of BF.SCANDUMP; valkey-bloom has none.
    pub(crate) fn chunks(&self) -> Vec<(i64, Vec<u8>)> {
        self.0.chunks().into_iter().map(|(iterator, data)| (i64::try_from(iterator).unwrap(), data)).collect()
    }

    /// Asserts that the filter under a key replies as recorded.
    pub(crate) fn assert_replies(&self, client: &mut Client, key: &str) {
        let key_type = client.say(&format!("TYPE {key}"));
        assert_eq!(key_type, format!("+{}", self.type_name()), "{key}");
        self.assert_lookups(client, key);
    }

    /// Asserts that lookups in the filter under a key reply as they did where it was recorded.
    pub(crate) fn assert_lookups(&self, client: &mut Client, key: &str) {
        let members = lookups(client, key, &self.members);
        assert!(members.iter().all(|reply| *reply == '1'), "{key} lost a member of {}", self.key);
        let probes: String = lookups(client, key, &self.probes).into_iter().collect();
        assert_eq!(probes, self.probe_replies(), "{key}");
    }
}

/// Returns the replies of BF.MEXISTS as digits.
pub(crate) fn lookups(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Vec<char> {
    let mut found = Vec::new();
    for items in items.chunks(1000) {
        let mut words: Vec<&[u8]> = vec![b"BF.MEXISTS", key.as_bytes()];
        words.extend(items.iter().map(Vec::as_slice));
        let replies = client.array(&words);
        found.extend(replies.iter().map(|reply| show(reply).chars().next().unwrap()));
    }
    found
}

/// Adds items with BF.MADD. An error in the reply is shown instead of a digit.
pub(crate) fn add(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Vec<String> {
    let mut words: Vec<&[u8]> = vec![b"BF.MADD", key.as_bytes()];
    words.extend(items.iter().map(Vec::as_slice));
    client.array(&words).iter().map(show).collect()
}

/// Writes another version of snapshots into the footer of a payload.
pub(crate) fn set_snapshot_version(payload: &mut [u8], version: u16) {
    let at = payload.len() - 10;
    payload[at..at + 2].copy_from_slice(&version.to_le_bytes());
    reseal(payload);
}

pub(crate) fn restore(client: &mut Client, key: &str, payload: &[u8]) -> String {
    client.ask(&[b"RESTORE", key.as_bytes(), b"0", payload])
}

/// Returns two servers that share all recorded filters: one that assumes RedisBloom 1.1 for filters that may be of
/// it, and one for the others.
pub(crate) fn servers(site: &Site, change: impl Fn(Launch) -> Launch) -> Vec<(Server, Vec<Case>)> {
    let (ambiguous, others): (Vec<_>, Vec<_>) =
        cases().into_iter().partition(|case| case.producer == AMBIGUOUS);
    let launches = [site.launch(), site.launch().with_option(ASSUME)];
    let pairs = launches.into_iter().zip([others, ambiguous]);
    pairs
        .map(|(launch, cases)| {
            let server = change(launch).start();
            let mut client = server.client();
            for case in &cases {
                assert_eq!(restore(&mut client, &case.key, &case.payload_for(site)), "+OK", "{}", case.key);
            }
            (server, cases)
        })
        .collect()
}

/// Returns the digest of every filter.
pub(crate) fn digests(client: &mut Client, cases: &[Case]) -> Vec<String> {
    cases.iter().map(|case| client.digest(&case.key)).collect()
}
