//! Pages of 2 MiB for large bit arrays (`bf.huge-pages`).
//!
//! They make probes of a large array and forks faster. The system keeps all 2 MiB of such a page in memory, so an array is
//! collapsed into them only when nearly all of its pages of 4 KiB have been written to. A background thread does it
//! ([`collapser`]). It does it again after a child has ended, because the system splits the pages that are written to while a
//! child has them too ([`children`]). docs/decisions/0009 has the measurements.

mod children;
mod collapser;
mod pages;

pub(super) use children::watch;
pub(super) use pages::LargePages;
