//! The kinds and sizes of the measured filters.

/// One kind of filter in one module.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name in the tables.
    pub(crate) name: String,
    /// Index of its server.
    pub(crate) server: usize,
    /// Options with which its filters are created, if the module has them, and their values.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// The filters on which it is measured.
    pub(crate) scope: Scope,
}

/// The filters on which a series is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    All,
    /// Only the largest, whose times depend on the page size of the memory.
    Largest,
    /// Only reserved filters with the same items as the filters that were not reserved.
    Reserved,
    /// None: its commands use no filter. Their names start with this text. The tables show it with the smallest filter.
    Nothing(&'static str),
}

impl Series {
    /// Returns a series of that name in one of the servers.
    pub(crate) fn new(
        name: &str,
        server: usize,
        settings: &[(&'static str, &'static str)],
        scope: Scope,
    ) -> Self {
        Self { name: name.to_owned(), server, settings: settings.to_vec(), scope }
    }

    /// Returns whether it is measured on filters of this size; the largest have that many bytes.
    pub(crate) fn is_measured_on(&self, size: &Size, largest_bytes: u64) -> bool {
        match self.scope {
            Scope::All => true,
            Scope::Largest => size.bytes >= largest_bytes,
            Scope::Reserved => size.is_unreserved(),
            Scope::Nothing(_) => *size == SMALL,
        }
    }

    /// Returns whether its commands use a filter.
    pub(crate) fn has_filter(&self) -> bool {
        !matches!(self.scope, Scope::Nothing(_))
    }

    /// Returns the name of one of its commands.
    pub(crate) fn command(&self, name: &str) -> String {
        let prefix = if let Scope::Nothing(prefix) = self.scope { prefix } else { "BF" };
        format!("{prefix}.{name}")
    }
}

/// A size of filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// Its name in the tables, and part of the key.
    pub(crate) name: &'static str,
    /// Error rate with which it is reserved.
    pub(crate) error_rate: f64,
    /// Approximate bytes of the bit array; 0 for a filter that was not reserved and grows to its number of items.
    pub(crate) bytes: u64,
    /// Number of items that were added one by one; hits are some of these.
    pub(crate) known: u64,
}

/// A filter that fits into the processor's cache.
pub(crate) const SMALL: Size = Size { name: "1 MB", error_rate: 0.01, bytes: 1 << 20, known: 100_000 };
/// Filters that were not reserved.
pub(crate) const UNRESERVED: [Size; 4] = [
    unreserved("unreserved, 100 items", 100),
    unreserved("unreserved, 10 thousand items", 10_000),
    unreserved("unreserved, 1 million items", 1_000_000),
    unreserved("unreserved, 10 million items", 10_000_000),
];

/// Returns a filter that was not reserved, with `known` items and the error rate that all modules have by default.
const fn unreserved(name: &'static str, known: u64) -> Size {
    Size { name, error_rate: 0.01, bytes: 0, known }
}

impl Size {
    /// Returns whether it was not reserved.
    pub(crate) fn is_unreserved(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the items that fill a filter of approximately its bytes.
    pub(crate) fn capacity_items(&self) -> u64 {
        if self.is_unreserved() {
            return self.known;
        }
        // 1 % more than the classic formula (Bloom, 1970): -log2(p) / ln 2 bits per item.
        let bits_per_item = -self.error_rate.log2() / std::f64::consts::LN_2 * 1.01;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "about 2^30")]
        let capacity = (self.bytes as f64 * 8.0 / bits_per_item) as u64;
        capacity
    }

    /// Returns the name as a word for `ONLY`.
    pub(crate) fn word(&self) -> String {
        word(self.name)
    }

    /// Returns the filter's key.
    pub(crate) fn key(&self, series: &Series) -> String {
        word(&format!("{}:{}", series.name, self.name))
    }
}

fn word(name: &str) -> String {
    name.replace(", ", "-").replace(' ', "-")
}
