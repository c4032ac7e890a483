//! Batches of items that are packed into one argument: BF.BULKADD and BF.BULKEXISTS.

mod add;
mod answers;
mod batch;
mod exists;
mod newlines;
mod packing;

pub(super) use add::run as add;
pub(super) use exists::run as exists;
