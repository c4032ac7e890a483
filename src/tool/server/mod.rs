//! Servers, single ones and clusters, for the subcommands.

mod connection;
mod router;
mod scan;
mod site;

pub(crate) use connection::{Connection, Trouble, field, integer, number, text};
pub(crate) use router::{Gone, Router};
pub(crate) use scan::scan;
pub(crate) use site::{Arguments, Credentials, Place, Site, sibling};
