//! Filters that count: everbloom's own encoding with a kind of its own, and four bits for every position.

pub mod header;
