//! everbloom's own encoding of keyed filters: as of the others of its own, with the key in the header.

pub mod header;
