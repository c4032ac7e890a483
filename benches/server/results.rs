//! The results of one run.

use super::big::Fact;
use super::cells::{BitArray, Full, Memory};
use super::grown::Curve;
use super::instructions::Instructions;
use super::pure::Pure;
use super::substitutes::Substitute;

/// The results of one run.
#[derive(Default)]
pub(crate) struct Results {
    /// Line with the server, the machine and the date.
    pub(crate) machine: String,
    /// Full filters.
    pub(crate) full: Vec<Full>,
    /// Ways to remember items without a module.
    pub(crate) substitutes: Vec<Substitute>,
    /// Work on filters.
    pub(crate) cells: BitArray,
    /// Memory of the filters that were not reserved.
    pub(crate) memory: Vec<Memory>,
    /// Instructions per command, if they could be counted.
    pub(crate) instructions: Option<Vec<Instructions>>,
    /// The pure modules.
    pub(crate) pure: Vec<Pure>,
    /// Measurements of a large filter in its own server.
    pub(crate) facts: Vec<Fact>,
    /// The merge of two large filters.
    pub(crate) merge: Vec<Fact>,
    /// Error rates of grown filters.
    pub(crate) grown: Vec<Curve>,
    /// Other modules by name, each as its file and its load arguments.
    pub(crate) peers: Vec<(String, String)>,
    /// Kinds of filter, in order.
    pub(crate) series: Vec<String>,
}
