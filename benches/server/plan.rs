//! What a run measures, and with which programs.

use std::path::{Path, PathBuf};

use super::failure::Failure;
use super::process;
use super::series::{CHAIN_ITEMS, SMALL, Size};

/// How much is measured.
pub(crate) struct Plan {
    /// Whether this only tries the program.
    pub(crate) is_quick: bool,
    /// Whether all is measured, and not only some of the work on filters.
    pub(crate) is_whole: bool,
    /// Whether instructions are counted.
    pub(crate) has_instructions: bool,
    /// Whether the merge of large filters is measured.
    pub(crate) has_merge: bool,
    /// Whether packed batches are.
    pub(crate) has_packed: bool,
    /// Times that everything is measured, in turns.
    pub(crate) rounds: usize,
    /// The filters.
    pub(crate) sizes: Vec<Size>,
    /// The filter of the measurements of saving and loading.
    pub(crate) big: Size,
    /// Items of filters that are filled to their capacity.
    pub(crate) full_items: u64,
    /// False positives that an error rate is measured by, at least.
    pub(crate) full_mistakes: f64,
    /// Items asked for, at most, to measure an error rate.
    pub(crate) full_probes_max: u64,
    /// Items that the ways without a module hold, at most.
    pub(crate) substitute_items_max: u64,
    /// Absent items that they are asked for.
    pub(crate) substitute_probes: u64,
    /// Commands whose instructions are counted.
    pub(crate) instruction_commands: u64,
    /// Items added to a large empty filter.
    pub(crate) first_adds: u64,
}

impl Plan {
    pub(crate) fn full() -> Self {
        let size = |name, error_rate, bytes, known| Size { name, error_rate, bytes, known };
        let big = size("1 GB", 0.01, 1 << 30, 2_000_000);
        Self {
            is_quick: false,
            is_whole: true,
            has_instructions: true,
            has_merge: true,
            has_packed: true,
            rounds: 9,
            sizes: vec![
                SMALL,
                size("64 MB", 0.01, 64 << 20, 1_000_000),
                big,
                size("1 GB at 1e-6", 1e-6, 1 << 30, 2_000_000),
                size("12 layers", 0.01, 0, CHAIN_ITEMS),
            ],
            big,
            full_items: 1_000_000,
            full_mistakes: 10_000.0,
            full_probes_max: 20_000_000,
            substitute_items_max: u64::MAX,
            substitute_probes: 200_000,
            instruction_commands: 1000,
            first_adds: 200_000,
        }
    }

    /// The same with everything small.
    pub(crate) fn quick() -> Self {
        let full = Self::full();
        let shrink = |size: &Size| Size { bytes: size.bytes >> 6, known: size.known.min(20_000), ..*size };
        Self {
            is_quick: true,
            is_whole: true,
            has_instructions: true,
            has_merge: true,
            has_packed: true,
            rounds: 2,
            sizes: full
                .sizes
                .iter()
                .map(|size| if *size == SMALL || size.is_chain() { *size } else { shrink(size) })
                .collect(),
            big: shrink(&full.big),
            full_items: 100_000,
            full_mistakes: 100.0,
            full_probes_max: 200_000,
            substitute_items_max: 50_000,
            substitute_probes: 20_000,
            instruction_commands: 200,
            first_adds: 20_000,
        }
    }

    /// Only the work on filters of these sizes, or only the `instructions`, the `merge`, or the `packed` batches.
    pub(crate) fn only(mut self, names: &str) -> Self {
        let is_named = |part: &str| names.split(',').any(|name| name == part);
        self.is_whole = false;
        self.has_instructions = is_named("instructions");
        self.has_merge = is_named("merge");
        self.has_packed = is_named("packed");
        self.sizes.retain(|size| is_named(&size.name.replace(' ', "-")));
        self
    }

    /// Items per measurement with so many per command.
    pub(crate) fn items(&self, per_command: usize) -> u64 {
        let items = if per_command == 1 { 30_000 } else { 100_000 };
        if self.is_quick { items / 20 } else { items }
    }
}

/// The programs and modules of this run.
pub(crate) struct Programs {
    /// The server.
    pub(crate) server: String,
    /// Our module.
    pub(crate) module: PathBuf,
    /// Our module with filters of RedisBloom's kind probed as RedisBloom does.
    pub(crate) baseline: Option<PathBuf>,
    /// A module whose commands do nothing.
    pub(crate) empty_module: Option<PathBuf>,
    /// Other modules with BF commands, by name.
    pub(crate) peers: Vec<(String, PathBuf)>,
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
        let peers = variable("PEERS").unwrap_or_default();
        let peers = peers.split_whitespace().map(|peer| {
            let (name, path) = peer.split_once('=').ok_or("PEERS wants name=/path/to/module.so ...")?;
            Ok((name.to_owned(), Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?))
        });
        Ok(Self {
            server: server.ok_or("neither redis-server nor valkey-server found")?,
            module: file("MODULE").ok_or("MODULE names no module file: start this by `make bench`")?,
            baseline: file("BASELINE"),
            empty_module: file("NOOP"),
            peers: peers.collect::<Result<_, Failure>>()?,
        })
    }
}
