//! Servers, single ones and clusters, as the subcommands talk to them.

mod connection;
mod redirection;
mod reply;
mod router;
mod scan;
mod site;
mod slots;

pub(crate) use connection::{Connection, Trouble};
pub(crate) use reply::{field, integer, number, text};
pub(crate) use router::{Gone, Router};
pub(crate) use scan::scan;
pub(crate) use site::{Arguments, Credentials, Place, Site};
pub(crate) use slots::sibling;
