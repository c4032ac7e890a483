//! Filters that forget: the window in the header, and for every layer what it took in which generation.

pub mod header;
