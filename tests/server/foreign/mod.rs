//! Loads filters that other modules wrote, the recordings of tests/fixtures, into real servers. Recordings whose bytes
//! determine their hash are also in `kinds`, so `journeys` tests them.

mod formats;
pub(crate) mod streams;

use crate::harness::{Client, Site, Test, reseal, show};
use crate::support::fixtures::{self, Case};

pub(crate) const SUBJECTS: &[(&str, &[Test])] =
    &[("foreign-formats", formats::TESTS), ("foreign-streams", streams::TESTS)];

/// The setting with which a server reads filters of RedisBloom as of release 1.1.
pub(crate) const ASSUME: &str = "bf.assume-redisbloom-1-1 yes";

/// Returns every recorded filter of other modules.
pub(crate) fn cases() -> Vec<Case> {
    ["redisbloom", "valkey-bloom"].into_iter().flat_map(fixtures::cases).collect()
}

/// What a recorded filter does in a server.
pub(crate) trait OnServer {
    /// Returns the payload for RESTORE on this server, which refuses newer snapshot versions than its own.
    fn payload_for(&self, site: &Site) -> Vec<u8>;

    /// Asserts that the filter under a key replies as recorded.
    fn assert_replies(&self, client: &mut Client, key: &str);

    /// Asserts that lookups in the filter under a key reply as recorded.
    fn assert_lookups(&self, client: &mut Client, key: &str);
}

impl OnServer for Case {
    fn payload_for(&self, site: &Site) -> Vec<u8> {
        let mut payload = self.payload.clone();
        if !site.from(Some((7, 2)), Some((7, 2))) {
            set_snapshot_version(&mut payload, 10);
        }
        payload
    }

    fn assert_replies(&self, client: &mut Client, key: &str) {
        let key_type = client.say(&format!("TYPE {key}"));
        assert_eq!(key_type, format!("+{}", self.type_name()), "{key}");
        self.assert_lookups(client, key);
    }

    fn assert_lookups(&self, client: &mut Client, key: &str) {
        let members = lookups(client, key, &self.members);
        assert!(members.iter().all(|reply| *reply == '1'), "{key} lost a member of {}", self.key);
        let probes: String = lookups(client, key, &self.probes).into_iter().collect();
        assert_eq!(probes, self.probe_replies(), "{key}");
    }
}

/// Returns the replies of BF.MEXISTS as digits.
pub(crate) fn lookups(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Vec<char> {
    let replies = items.chunks(1000).flat_map(|items| client.many(&format!("BF.MEXISTS {key}"), items));
    replies.map(|reply| show(&reply).chars().next().unwrap()).collect()
}

/// Sets the version of snapshots in the footer of a payload.
pub(crate) fn set_snapshot_version(payload: &mut [u8], version: u16) {
    let at = payload.len() - 10;
    payload[at..at + 2].copy_from_slice(&version.to_le_bytes());
    reseal(payload);
}

pub(crate) fn restore(client: &mut Client, key: &str, payload: &[u8]) -> String {
    client.ask(&[b"RESTORE", key.as_bytes(), b"0", payload])
}
