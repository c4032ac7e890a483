//! BF.IMPORT: taking over the bitmap that a client keeps in a string.

mod error;
mod options;
mod parse;
mod run;

pub use error::ImportError;
pub use options::ImportOptions;
pub(super) use run::run;
