//! Checks for an existing key, which is an error unless an option allows to replace it.

use super::failure::Failure;
use super::server::{Router, is_filter, text};

/// The options that replace existing keys.
#[derive(Clone, Copy, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Replace the filter that is under the key
    #[arg(long)]
    pub(crate) replace: bool,
    /// With --replace: replace a key of any type, such as a string
    #[arg(long, requires = "replace")]
    force: bool,
}

impl Arguments {
    /// Returns an error if the key exists and must not be replaced. `choices` are the options that the error names.
    pub(crate) fn check(self, router: &mut Router, key: &[u8], choices: &str) -> Result<(), Failure> {
        let data_type = text(&router.call(key, &[b"TYPE", key])?).unwrap_or_default();
        let may_replace = self.replace && (self.force || is_filter(&data_type));
        match data_type.as_str() {
            "none" => Ok(()),
            _ if may_replace => Ok(()),
            name if self.replace => Err(Failure::new(format!(
                "the key is a {name}, not a filter: use --replace --force to replace it"
            ))),
            _ => Err(Failure::new(format!("the key already exists: use {choices}"))),
        }
    }
}
