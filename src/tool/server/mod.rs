//! Connections to single servers and clusters.

mod connection;
mod router;
mod scan;
mod site;

pub(crate) use connection::{CallError, Connection, field, integer, number, text};
pub(crate) use router::{RoutedError, Router};
pub(crate) use scan::{is_filter, scan};
pub(crate) use site::{Arguments, Credentials, Place, Site, sibling};
