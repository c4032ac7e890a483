//! What BF.INFO and BF.STATS tell of a filter.

/// What BF.INFO tells of a filter beside what every filter has.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) struct Facts {
    /// What the module whose format the filter has would show as its size, in bytes.
    pub(in crate::command) size_bytes: u64,
    /// The error rate that was asked for, where it is known.
    pub(in crate::command) error_rate: Option<f64>,
    /// How much smaller the error rate of each layer is than that of the one before, where that is part of
    /// the filter.
    pub(in crate::command) tightening_ratio: Option<f64>,
    /// How many of the items inserted nobody counted.
    pub(in crate::command) estimated_items: Option<u64>,
    /// How long a filter that forgets remembers, in milliseconds.
    pub(in crate::command) window_ms: Option<u64>,
}

/// What BF.STATS tells of a filter beside what can be read off every filter.
#[derive(Clone, Debug, Default)]
pub(in crate::command) struct Profile {
    /// The error rate that was asked for, where it is known.
    pub(in crate::command) error_rate: Option<f64>,
    /// Whether items are hashed with a key that clients are not told.
    pub(in crate::command) is_keyed: bool,
    /// Whose filter it was, where it was taken over.
    pub(in crate::command) import: Option<Import>,
    /// Of each layer, the oldest first.
    pub(in crate::command) layers: Vec<LayerProfile>,
}

/// How a client's filter was taken over, in the words of BF.IMPORT.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) struct Import {
    pub(in crate::command) scheme: &'static str,
    pub(in crate::command) encoding: &'static str,
    pub(in crate::command) order: &'static str,
}

/// What BF.STATS tells of a layer beside what can be read off every layer.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) struct LayerProfile {
    /// How it places the probes of an item.
    pub(in crate::command) placement: &'static str,
    /// The error rate it was sized for, where it is known.
    pub(in crate::command) error_rate: Option<f64>,
}

/// What reserving another filter in place of one that has grown would have taken.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::command) struct Reservation {
    /// The words of BF.RESERVE after the key.
    pub(in crate::command) words: String,
    /// Bytes of its one bit array.
    pub(in crate::command) size_bytes: u64,
}
