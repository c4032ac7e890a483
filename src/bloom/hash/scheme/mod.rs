//! The hashes of clients that keep filters in plain strings of the server, under frozen ids.
//!
//! The items of such a filter are gone, so it cannot be hashed anew: an imported filter is queried and added to by the scheme
//! of the client that made it, for as long as it exists. Schemes and encodings are part of the format: **add, never
//! edit**. tests/schemes holds every scheme to recordings of the clients' own code.

mod digest;
mod encode;
mod encoder;
mod encoding;
mod kryo;
mod output;
mod parameters;
mod php;
#[expect(clippy::module_inception, reason = "the type of that name has the file of that name")]
mod scheme;
mod text;

pub use digest::SchemeHash;
pub use encoding::{ItemEncoding, NotEncodable};
pub use parameters::{SchemeError, SchemeParameters};
pub use scheme::{CLIENT_PROBES_MAX, PHP_UNIT_BITS, SHIFT_MAX, Scheme};
