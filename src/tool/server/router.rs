//! Connections to all nodes that are needed, each opened when it is first asked for.

use std::collections::HashMap;

use super::connection::Connection;
use super::site::{Node, Site, node_of};
use crate::failure::Failure;

/// A way to every key.
pub(crate) struct Router {
    site: Site,
    nodes: Vec<Node>,
    open: HashMap<Option<(String, u16)>, Connection>,
}

impl Router {
    pub(crate) fn new(site: &Site) -> Result<Self, Failure> {
        Ok(Self { site: site.clone(), nodes: site.nodes()?, open: HashMap::new() })
    }

    pub(crate) const fn site(&self) -> &Site {
        &self.site
    }

    /// The connection to the node that has the key's slot.
    pub(crate) fn connection_for(&mut self, key: &[u8]) -> Result<&mut Connection, Failure> {
        let node = node_of(&self.nodes, key)?.clone();
        self.connection_to(&node)
    }

    /// A connection to every primary, one after another.
    pub(crate) fn each(
        &mut self,
        mut visit: impl FnMut(&mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut nodes = self.nodes.clone();
        nodes.sort_by(|one, other| one.place.cmp(&other.place));
        nodes.dedup_by(|one, other| one.place == other.place);
        nodes.iter().try_for_each(|node| visit(self.connection_to(node)?))
    }

    /// Forgets the connections: one of them broke, or slots have moved.
    pub(crate) fn refresh(&mut self) -> Result<(), Failure> {
        self.open.clear();
        self.nodes = self.site.nodes()?;
        Ok(())
    }

    fn connection_to(&mut self, node: &Node) -> Result<&mut Connection, Failure> {
        use std::collections::hash_map::Entry;
        match self.open.entry(node.place.clone()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(self.site.connect_to(node)?)),
        }
    }
}
