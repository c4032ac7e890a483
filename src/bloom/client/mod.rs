//! How clients place the bits of filters that they keep in plain strings of the server, under frozen ids.
//!
//! Such a filter cannot be hashed anew, because its items are gone: a bitmap that is taken over is asked and
//! added to by the scheme of the client that made it, for as long as it lives. Schemes and encodings are
//! therefore part of the format: **add, never edit**. What a bitmap does not tell about itself (scheme,
//! encoding, bits, probes) is a [`SchemeParameters`]; a [`SchemePlacement`] is one that has been found
//! possible.
//!
//! No positions are invented here: tests/schemes holds every scheme to recordings of the clients' own code.

mod encode;
mod encoder;
mod estimate;
mod family;
mod form;
mod hash;
mod kryo;
mod layers;
mod output;
mod parameters;
mod php;
mod placement;
mod scheme;
mod text;

pub use estimate::{current_error_rate, estimated_items, half_full_items};
pub use family::{Client, check_size, own_plan};
pub use form::{BitOrder, StringForm};
pub use hash::SchemeHash;
pub use layers::{ClientPlacement, ItemDigest};
pub use parameters::{SchemeError, SchemeParameters};
pub use placement::SchemePlacement;
pub use scheme::{CLIENT_PROBES_MAX, PHP_UNIT_BITS, SHIFT_MAX, Scheme};

pub use crate::bloom::encoding::{ItemEncoding, NotEncodable};
