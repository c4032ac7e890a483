//! Pages of 2 MiB for large bit arrays, where they cost no memory (`bf.huge-pages`).
//!
//! A probe of a large array then misses the address cache far less often, and a fork has a fraction of the
//! page tables to copy. But a large page is resident as a whole: taken for the first bit that is set in it,
//! it makes a filter that was reserved too large, or whose items lie all over it, resident long before it
//! holds anything. So small pages are joined only where nearly all of them have been written to, by a thread
//! of its own ([`joiner`]); and again after a save, during which the system splits pages that are written to.
//! docs/decisions/0009 has what was measured.

mod block;
mod children;
mod joiner;
mod pages;

pub(super) use children::watch;
pub(super) use pages::LargePages;
