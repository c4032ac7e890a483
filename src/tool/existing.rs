//! Checks for an existing key, which is an error unless an option allows to replace it.

use super::failure::Failure;
use super::server::{Router, is_filter, text};

/// The options that replace existing keys.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[group(skip)]
pub(crate) struct Arguments {
    /// Replace the filter that is under the key
    #[arg(long)]
    pub(crate) replace: bool,
    /// With --replace: replace a key of any type, such as a string, also by a filter without items
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

    /// Returns an error if there are no items for the filter and this may be a mistake, such as an export that failed.
    /// `has_capacity` is whether the user has chosen a capacity.
    pub(crate) fn check_items(self, items: u64, has_capacity: bool) -> Result<(), Failure> {
        if items > 0 || self.force {
            Ok(())
        } else if self.replace {
            Err(Failure::new(
                "there are no items to add: use --replace --force to replace the filter by an empty one",
            ))
        } else if has_capacity {
            Ok(())
        } else {
            Err(Failure::new("there are no items to add: give --capacity to create an empty filter"))
        }
    }
}
