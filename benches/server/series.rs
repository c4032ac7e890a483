//! The kinds and sizes of the filters under load.

/// Whose filters: one kind in one module.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// What the tables call it.
    pub(crate) name: String,
    /// Which of the servers holds it.
    pub(crate) server: usize,
    /// What its filters are made with, where the module has a choice: settings and their values.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// On which filters it is measured.
    pub(crate) scope: Scope,
}

/// Which filters a series is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    All,
    /// Only on the largest, where the pages of the memory matter.
    Largest,
    /// Only beside filters that nobody reserved, and reserved for the same items.
    Reserved,
    /// On none: its commands, whose names begin so, have no filter. It stands beside the smallest.
    Nothing(&'static str),
}

impl Series {
    /// A series of that name in one of the servers.
    pub(crate) fn new(
        name: &str,
        server: usize,
        settings: &[(&'static str, &'static str)],
        scope: Scope,
    ) -> Self {
        Self { name: name.to_owned(), server, settings: settings.to_vec(), scope }
    }

    /// Whether it is measured on filters of this size, the largest of which have that many bytes.
    pub(crate) fn is_measured_on(&self, size: &Size, largest_bytes: u64) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Largest => size.bytes >= largest_bytes,
            Scope::Reserved => size.is_unreserved(),
            Scope::Nothing(_) => *size == SMALL,
        }
    }

    /// Whether its commands have a filter at all.
    pub(crate) fn has_filter(&self) -> bool {
        !matches!(self.scope, Scope::Nothing(_))
    }

    /// The name of one of its commands.
    pub(crate) fn command(&self, name: &str) -> String {
        let prefix = if let Scope::Nothing(prefix) = self.scope { prefix } else { "BF" };
        format!("{prefix}.{name}")
    }
}

/// A size of filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// What the tables call it, and the key's name.
    pub(crate) name: &'static str,
    /// Error rate it is reserved with.
    pub(crate) error_rate: f64,
    /// Bytes of the bit array, about; 0 for a filter that nobody reserved, which grows to what it holds.
    pub(crate) bytes: u64,
    /// Items that were really added, which hits are drawn from.
    pub(crate) known: u64,
}

/// A filter that fits into the processor's cache.
pub(crate) const SMALL: Size = Size { name: "1 MB", error_rate: 0.01, bytes: 1 << 20, known: 100_000 };
/// Filters that nobody reserved.
pub(crate) const UNRESERVED: [Size; 4] = [
    unreserved("unreserved, 100 items", 100),
    unreserved("unreserved, 10 thousand items", 10_000),
    unreserved("unreserved, 1 million items", 1_000_000),
    unreserved("unreserved, 10 million items", 10_000_000),
];

/// Returns a filter that nobody reserved, with `known` items and the default error rate of all modules.
const fn unreserved(name: &'static str, known: u64) -> Size {
    Size { name, error_rate: 0.01, bytes: 0, known }
}

impl Size {
    /// Whether nobody reserved it.
    pub(crate) fn is_unreserved(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the items that fill the filter: about as large as its name says.
    pub(crate) fn capacity_items(&self) -> u64 {
        if self.is_unreserved() {
            return self.known;
        }
        // 1 % more than the classic formula asks for (Bloom, 1970): -log2(p) / ln 2 bits per item.
        let bits_per_item = -self.error_rate.log2() / std::f64::consts::LN_2 * 1.01;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "about 2^30")]
        let capacity = (self.bytes as f64 * 8.0 / bits_per_item) as u64;
        capacity
    }

    /// The name as a word: in `ONLY`.
    pub(crate) fn word(&self) -> String {
        word(self.name)
    }

    /// The filter's key.
    pub(crate) fn key(&self, series: &Series) -> String {
        word(&format!("{}:{}", series.name, self.name))
    }
}

fn word(name: &str) -> String {
    name.replace(", ", "-").replace(' ', "-")
}
