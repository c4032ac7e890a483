//! Connects to the nodes of a cluster, and follows their redirections while slots move between them.

use std::collections::BTreeSet;
use std::collections::hash_map::{Entry, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use super::connection::{CallError, Connection};
use super::site::{Node, NodeAddress, Site, slot_of};
use crate::failure::{Failure, check_interruption};

/// How long a command is retried while its slot is moving.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first and the longest wait between two tries. Each wait is twice as long as the one before.
const WAIT_MIN: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(500);

/// The connections to the nodes of a cluster. Each connection is made when it is first needed.
pub(crate) struct Router {
    pub(crate) site: Site,
    /// The nodes with their ranges of slots. If several ranges contain a slot, the first one counts.
    nodes: Vec<Node>,
    open: HashMap<NodeAddress, Connection>,
}

impl Router {
    pub(crate) fn new(site: &Site) -> Result<Self, Failure> {
        Ok(Self { site: site.clone(), nodes: site.nodes()?, open: HashMap::new() })
    }

    /// Returns a router for a command that handles all keys of a site.
    ///
    /// # Errors
    /// A node does not know `command`. Or the site is a node of a cluster, whose other nodes have keys too.
    pub(crate) fn to_all_keys(site: &Site, command: &str) -> Result<Self, Failure> {
        let mut router = Self::new(site)?;
        for address in router.addresses() {
            router.require_at(&address, command)?;
        }
        if !site.is_cluster && router.at(&None)?.is_in_cluster()? {
            return Err(Failure::new(format!(
                "{site} is a node of a cluster, and the other nodes have keys too: use -c"
            )));
        }
        Ok(router)
    }

    /// Returns an error if the node that has the key's slot does not know a command.
    pub(crate) fn require(&mut self, key: &[u8], command: &str) -> Result<(), Failure> {
        self.require_at(&self.address_of(key)?, command)
    }

    fn require_at(&mut self, address: &NodeAddress, command: &str) -> Result<(), Failure> {
        let required = self.at(address)?.require(command);
        required.map_err(|failure| match address {
            Some((host, port)) => failure.about(format!("{host}:{port}")),
            None => failure,
        })
    }

    /// Returns the connection to the node that has the key's slot.
    pub(crate) fn connection_for(&mut self, key: &[u8]) -> Result<&mut Connection, Failure> {
        let address = self.address_of(key)?;
        self.at(&address)
    }

    /// Returns the address of the node that has the key's slot.
    pub(crate) fn address_of(&self, key: &[u8]) -> Result<NodeAddress, Failure> {
        let slot = u64::from(slot_of(key));
        let found = self.nodes.iter().find(|node| (node.first..=node.last).contains(&slot));
        found.map(|node| node.address.clone()).ok_or_else(|| {
            Failure::new(format!("no node of the cluster serves slot {slot}: check CLUSTER INFO"))
        })
    }

    /// Returns the connection to a node.
    pub(crate) fn at(&mut self, address: &NodeAddress) -> Result<&mut Connection, Failure> {
        match self.open.entry(address.clone()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(self.site.connect_to(address)?)),
        }
    }

    /// Returns the reply to a command about a key, from the node that has the key's slot. Follows redirections. The
    /// replies to all earlier commands must have been received.
    pub(crate) fn call(&mut self, key: &[u8], command: &[&[u8]]) -> Result<Value, CallError> {
        self.follow(key, |connection| connection.call(command))
    }

    /// Executes commands about a key in a transaction on the node that has the key's slot. Follows redirections.
    /// Returns their replies, or the first error.
    pub(crate) fn transact(&mut self, key: &[u8], commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, CallError> {
        self.follow(key, |connection| connection.transact(commands))
    }

    /// Returns whether an error is a redirection that this router follows. The command was then not executed.
    pub(crate) fn is_to_follow(&self, text: &str) -> bool {
        self.site.is_cluster && Redirection::of(text).is_some()
    }

    /// Calls `visit` with the connection to each primary.
    pub(crate) fn each(
        &mut self,
        mut visit: impl FnMut(&mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.addresses().iter().try_for_each(|address| visit(self.at(address)?))
    }

    /// Returns the address of each primary.
    fn addresses(&self) -> BTreeSet<NodeAddress> {
        self.nodes.iter().map(|node| node.address.clone()).collect()
    }

    /// Closes the connections and reads the slots again, after a connection broke or was idle for long, or slots have
    /// moved.
    pub(crate) fn refresh(&mut self) -> Result<(), Failure> {
        self.open.clear();
        self.nodes = self.site.nodes()?;
        Ok(())
    }

    /// Calls `execute` with the connection to the node that has the key's slot. After a redirection, waits and calls it
    /// again.
    fn follow<T>(
        &mut self,
        key: &[u8],
        mut execute: impl FnMut(&mut Connection) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut patience = Patience::default();
        let mut ask_address: Option<NodeAddress> = None;
        loop {
            let outcome = match ask_address.take() {
                Some(address) => {
                    let connection = self.at(&address)?;
                    connection.call(&[b"ASKING"]).and_then(|_| execute(connection))
                }
                None => execute(self.connection_for(key)?),
            };
            let redirection = match &outcome {
                Err(CallError::Refused(text)) if self.site.is_cluster => {
                    Redirection::of(text).zip(Some(text))
                }
                _ => None,
            };
            let Some((redirection, text)) = redirection else { return outcome };
            patience.wait(text)?;
            match redirection {
                // The redirection may be newer than the reply of CLUSTER SLOTS, so it takes precedence.
                Redirection::Moved(slot, address) => {
                    let address = self.site.named(address);
                    self.nodes.retain(|node| (node.first, node.last) != (slot, slot));
                    self.nodes.insert(0, Node { first: slot, last: slot, address });
                }
                Redirection::Ask(address) => ask_address = Some(self.site.named(address)),
                Redirection::Wait => {}
            }
        }
    }
}

/// An error reply of a node that did not execute a command because of the key's slot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Redirection {
    /// The slot belongs to this node now.
    Moved(u64, (String, u16)),
    /// The slot is moving, and this node may already have the key.
    Ask((String, u16)),
    /// The same node may execute the command later.
    Wait,
}

impl Redirection {
    /// Returns the redirection that the text of an error describes; `None` for other errors.
    fn of(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        match words.next()? {
            "TRYAGAIN" | "CLUSTERDOWN" => Some(Self::Wait),
            word @ ("MOVED" | "ASK") => {
                let slot = words.next()?.parse().ok()?;
                let (host, port) = words.next()?.rsplit_once(':')?;
                let address = (host.to_owned(), port.parse().ok()?);
                Some(if word == "MOVED" { Self::Moved(slot, address) } else { Self::Ask(address) })
            }
            _ => None,
        }
    }
}

/// The time for which a command has been retried.
#[derive(Default)]
struct Patience {
    began: Option<Instant>,
    wait: Duration,
}

impl Patience {
    /// Waits before a retry. The first retry is immediate. Each later wait is longer than the one before.
    fn wait(&mut self, text: &str) -> Result<(), Failure> {
        let Some(began) = self.began else {
            *self = Self { began: Some(Instant::now()), wait: WAIT_MIN };
            return Ok(());
        };
        check_interruption()?;
        if began.elapsed() >= PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(Failure::new(format!(
                "the cluster has refused a command for {seconds} seconds: {text}"
            )));
        }
        thread::sleep(self.wait);
        self.wait = (self.wait * 2).min(WAIT_MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Redirection;

    #[test]
    fn redirections_are_parsed() {
        let address = |host: &str| (host.to_owned(), 6381);
        for (text, redirection) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirection::Moved(3999, address("127.0.0.1")))),
            ("MOVED 3999 ::1:6381", Some(Redirection::Moved(3999, address("::1")))),
            ("ASK 7 :6381", Some(Redirection::Ask(address("")))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirection::Wait)),
            ("CLUSTERDOWN The cluster is down", Some(Redirection::Wait)),
            ("MOVED", None),
            ("MOVED 1 nowhere", None),
            ("ERR not found", None),
            ("", None),
        ] {
            assert_eq!(Redirection::of(text), redirection, "{text}");
        }
    }
}
