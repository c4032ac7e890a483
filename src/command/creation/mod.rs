//! Making a filter: what the options of BF.RESERVE and BF.INSERT ask for, and how what was made is
//! replicated.

pub(super) mod lines;
mod options;
mod spec;

pub use lines::Creation;
pub use options::CreationOptions;
pub(super) use spec::{creation, spec};
