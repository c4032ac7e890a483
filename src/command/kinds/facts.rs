//! What BF.INFO tells of a filter.

/// What BF.INFO tells of a filter beside what every filter has.
#[derive(Clone, Copy, Debug)]
pub(in crate::command) struct Facts {
    /// What the module whose format the filter has would show as its size, in bytes.
    pub(in crate::command) size_bytes: u64,
    /// The error rate that was asked for, where it is known.
    pub(in crate::command) error_rate: Option<f64>,
    /// How much smaller the error rate of each layer is than that of the one before, where that is part of the filter.
    pub(in crate::command) tightening_ratio: Option<f64>,
    /// How many of the items inserted nobody counted.
    pub(in crate::command) estimated_items: Option<u64>,
    /// How long a filter that forgets remembers, in milliseconds.
    pub(in crate::command) window_ms: Option<u64>,
}
