//! The plan of a run, from its environment variables, and the programs that it needs.

use std::path::PathBuf;

use super::failure::Failure;
use super::process;
use super::series::{SMALL, Size, UNRESERVED};

/// The plan of a run.
pub(crate) struct Plan {
    /// Whether this is a short run that only tests the program.
    pub(crate) is_quick: bool,
    /// Whether the run measures everything, and not only some parts.
    pub(crate) is_whole: bool,
    /// Whether instructions are counted.
    pub(crate) has_instructions: bool,
    /// Whether the error rates of grown filters are measured.
    pub(crate) has_grown: bool,
    /// Whether the merge of large filters is measured.
    pub(crate) has_merge: bool,
    /// Whether packed batches are measured.
    pub(crate) has_packed: bool,
    /// Number of rounds; each measures everything once.
    pub(crate) rounds: usize,
    /// The filters.
    pub(crate) sizes: Vec<Size>,
    /// The filter for the measurements of saving and loading.
    pub(crate) big: Size,
    /// Items of filters that are filled to their capacity.
    pub(crate) full_items: u64,
    /// Number of false positives that the measurement of an error rate should find.
    pub(crate) full_mistakes: f64,
    /// Most items looked up for the measurement of an error rate.
    pub(crate) full_probes_max: u64,
    /// Largest number of items without a module.
    pub(crate) substitute_items_max: u64,
    /// Absent items that are looked up without a module.
    pub(crate) substitute_probes: u64,
    /// Commands whose instructions are counted.
    pub(crate) instruction_commands: u64,
    /// Items added to a large empty filter.
    pub(crate) first_adds: u64,
    /// Number of items up to which filters grow for the measurement of their error rates.
    pub(crate) grown_items: u64,
    /// Number of these growing filters of each kind.
    pub(crate) grown_filters: u64,
    /// Absent items that are looked up each time such a filter is full.
    pub(crate) grown_probes: u64,
}

impl Plan {
    pub(crate) fn full() -> Self {
        let size = |name, error_rate, bytes, known| Size { name, error_rate, bytes, known };
        let big = size("1 GB", 0.01, 1 << 30, 2_000_000);
        Self {
            is_quick: false,
            is_whole: true,
            has_instructions: true,
            has_grown: true,
            has_merge: true,
            has_packed: true,
            rounds: 9,
            sizes: [
                SMALL,
                size("64 MB", 0.01, 64 << 20, 1_000_000),
                big,
                size("1 GB at 1e-6", 1e-6, 1 << 30, 2_000_000),
            ]
            .into_iter()
            .chain(UNRESERVED)
            .collect(),
            big,
            full_items: 1_000_000,
            full_mistakes: 10_000.0,
            full_probes_max: 20_000_000,
            substitute_items_max: u64::MAX,
            substitute_probes: 200_000,
            instruction_commands: 1000,
            first_adds: 200_000,
            grown_items: 409_500,
            grown_filters: 20,
            grown_probes: 200_000,
        }
    }

    /// Returns the same plan with small numbers.
    pub(crate) fn quick() -> Self {
        let full = Self::full();
        let shrink = |size: &Size| Size { bytes: size.bytes >> 6, known: size.known.min(20_000), ..*size };
        Self {
            is_quick: true,
            is_whole: true,
            has_instructions: true,
            has_grown: true,
            has_merge: true,
            has_packed: true,
            rounds: 2,
            sizes: full.sizes.iter().map(|size| if *size == SMALL { *size } else { shrink(size) }).collect(),
            big: shrink(&full.big),
            full_items: 100_000,
            full_mistakes: 100.0,
            full_probes_max: 200_000,
            substitute_items_max: 50_000,
            substitute_probes: 20_000,
            instruction_commands: 200,
            first_adds: 20_000,
            grown_items: 25_500,
            grown_filters: 2,
            grown_probes: 50_000,
        }
    }

    /// Limits the plan to the work on filters of the named sizes or on all `unreserved` ones, or to the
    /// `instructions`, the `merge`, the `packed` batches or the `grown` filters.
    pub(crate) fn only(mut self, names: &str) -> Self {
        let is_named = |part: &str| names.split(',').any(|name| name == part);
        self.is_whole = false;
        self.has_instructions = is_named("instructions");
        self.has_grown = is_named("grown");
        self.has_merge = is_named("merge");
        self.has_packed = is_named("packed");
        self.sizes.retain(|size| is_named(&size.word()) || (size.is_unreserved() && is_named("unreserved")));
        self
    }

    /// Returns the items per measurement with `per_command` items in a command.
    pub(crate) fn items(&self, per_command: usize) -> u64 {
        let items = if per_command == 1 { 30_000 } else { 100_000 };
        if self.is_quick { items / 20 } else { items }
    }
}

/// The programs and modules of a run.
pub(crate) struct Programs {
    /// The server.
    pub(crate) server: String,
    /// Our module.
    pub(crate) module: PathBuf,
    /// The baseline: our module with RedisBloom's algorithm for filters of the format `redisbloom`.
    pub(crate) baseline: Option<PathBuf>,
    /// A module whose commands do nothing.
    pub(crate) empty_module: Option<PathBuf>,
    /// Other modules with BF commands.
    pub(crate) peers: Vec<Peer>,
}

/// Another module with BF commands.
#[derive(Debug, PartialEq)]
pub(crate) struct Peer {
    /// Its name in the tables.
    pub(crate) name: String,
    /// Its file.
    pub(crate) module: PathBuf,
    /// Its load arguments.
    pub(crate) arguments: Vec<String>,
}

impl Peer {
    /// Returns the name of its file without the directory, and its load arguments.
    pub(crate) fn shown(&self) -> String {
        let file = self.module.file_name().unwrap_or_default().to_string_lossy();
        [file.as_ref(), &self.arguments.join(" ")].join(" ").trim().to_owned()
    }

    /// Reads `name=/path/to/module.so argument ... name=...`: a word with a path after its first `=`, absolute or
    /// starting with `.`, begins a peer. The words up to the next peer are its load arguments.
    fn all(words: &str) -> Result<Vec<Self>, Failure> {
        let mut peers: Vec<Self> = Vec::new();
        for word in words.split_whitespace() {
            let is_path = |path: &str| ["/", "./", "../"].iter().any(|start| path.starts_with(start));
            match (word.split_once('=').filter(|(_, path)| is_path(path)), peers.last_mut()) {
                (Some((name, path)), _) => {
                    peers.push(Self { name: name.to_owned(), module: path.into(), arguments: Vec::new() });
                }
                (None, Some(peer)) if !word.starts_with("--") => peer.arguments.push(word.to_owned()),
                _ => {
                    return Err(
                        format!("PEERS wants name=/path/to/module.so argument ..., not {word}").into()
                    );
                }
            }
        }
        Ok(peers)
    }
}

impl Programs {
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let file = |name| variable(name).map(PathBuf::from).filter(|path| path.is_file());
        let server = variable("SERVER").or_else(|| {
            let found =
                ["redis-server", "valkey-server"].into_iter().find(|name| process::on_path(name).is_some());
            found.map(str::to_owned)
        });
        let mut peers = Peer::all(&variable("PEERS").unwrap_or_default())?;
        for peer in &mut peers {
            let found = peer.module.canonicalize();
            peer.module = found.map_err(|error| format!("{}: {error}", peer.module.display()))?;
        }
        Ok(Self {
            server: server.ok_or("neither redis-server nor valkey-server found")?,
            module: file("MODULE").ok_or("MODULE is not the path of a module: run `make bench`")?,
            baseline: file("BASELINE"),
            empty_module: file("NOOP"),
            peers,
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_after_a_peer_are_its_load_arguments() {
        use super::*;
        let peers = Peer::all("redisbloom=/x/redisbloom.so INITIAL_SIZE 1000 a=b valkey=../y.so").unwrap();
        let peer = |name: &str, module: &str, arguments: &[&str]| Peer {
            name: name.to_owned(),
            module: module.into(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        };
        let arguments = ["INITIAL_SIZE", "1000", "a=b"];
        let [first, second] = &peers[..] else { panic!("{peers:?}") };
        assert_eq!(*first, peer("redisbloom", "/x/redisbloom.so", &arguments));
        assert_eq!(first.shown(), "redisbloom.so INITIAL_SIZE 1000 a=b");
        assert_eq!(*second, peer("valkey", "../y.so", &[]));
        assert_eq!((second.shown().as_str(), Peer::all(" ").unwrap()), ("y.so", Vec::new()));
        assert!(Peer::all("INITIAL_SIZE 1000").is_err() && Peer::all("a=/b --save x").is_err());
    }
}
