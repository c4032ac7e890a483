//! Connections to all nodes that are needed, each opened when it is first asked for; and the way that a command takes
//! while slots move between them.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;

use super::connection::{Connection, Trouble};
use super::redirection::Redirection;
use super::site::{Node, Place, Site, node_of};
use crate::failure::Failure;
use crate::interrupt;

/// How long a command is tried again while its slot is on its way.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first wait between two tries, and the longest; each is twice the one before.
const WAIT_MIN: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_millis(500);

/// A way to every key.
pub(crate) struct Router {
    site: Site,
    /// The first that has a slot is the one that counts.
    nodes: Vec<Node>,
    open: HashMap<Place, Connection>,
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
        let place = self.place_of(key)?;
        self.at(&place)
    }

    /// The node that has the key's slot.
    pub(crate) fn place_of(&self, key: &[u8]) -> Result<Place, Failure> {
        Ok(node_of(&self.nodes, key)?.place.clone())
    }

    /// The connection to a node.
    pub(crate) fn at(&mut self, place: &Place) -> Result<&mut Connection, Failure> {
        use std::collections::hash_map::Entry;
        match self.open.entry(place.clone()) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => Ok(entry.insert(self.site.connect_to(place)?)),
        }
    }

    /// A command about a key and its reply, wherever the key is, and wherever its slot moves meanwhile. No reply may be
    /// outstanding at any node.
    pub(crate) fn call(&mut self, key: &[u8], command: &[&[u8]]) -> Result<Value, Gone> {
        self.follow(key, |connection| connection.call(command))
    }

    /// Commands about a key that are done together or not at all, as [`Connection::transact`].
    pub(crate) fn transact(&mut self, key: &[u8], commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, Gone> {
        self.follow(key, |connection| connection.transact(commands))
    }

    /// Whether the words are those of a node that has not done the command, and the command is to go elsewhere or to be
    /// tried again: only where a cluster is to be followed.
    pub(crate) fn is_to_follow(&self, text: &str) -> bool {
        self.site.is_cluster() && Redirection::of(text).is_some()
    }

    /// A connection to every primary, one after another.
    pub(crate) fn each(
        &mut self,
        mut visit: impl FnMut(&mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut places: Vec<Place> = self.nodes.iter().map(|node| node.place.clone()).collect();
        places.sort();
        places.dedup();
        places.iter().try_for_each(|place| visit(self.at(place)?))
    }

    /// Forgets the connections: one of them broke, has been idle for long, or slots have moved.
    pub(crate) fn refresh(&mut self) -> Result<(), Failure> {
        self.open.clear();
        self.nodes = self.site.nodes()?;
        Ok(())
    }

    fn follow<T>(
        &mut self,
        key: &[u8],
        mut ask: impl FnMut(&mut Connection) -> Result<T, Trouble>,
    ) -> Result<T, Gone> {
        let mut patience = Patience::default();
        let mut asked: Option<Place> = None;
        loop {
            let outcome = match asked.take() {
                Some(place) => {
                    let connection = self.at(&place)?;
                    connection.call(&[b"ASKING"]).and_then(|_| ask(connection))
                }
                None => ask(self.connection_for(key)?),
            };
            let redirection = match &outcome {
                Err(Trouble::Refused(text)) if self.site.is_cluster() => Redirection::of(text),
                _ => None,
            };
            let (Some(redirection), Err(trouble)) = (redirection, &outcome) else {
                return outcome.map_err(Gone::Trouble);
            };
            patience.wait(trouble)?;
            match redirection {
                // What a node says of a slot counts before what CLUSTER SLOTS said.
                Redirection::Moved(slot, place) => {
                    let place = self.site.named(place);
                    self.nodes.retain(|node| !node.is_only(slot));
                    self.nodes.insert(0, Node::of_slot(slot, place));
                }
                Redirection::Ask(place) => asked = Some(self.site.named(place)),
                Redirection::Wait => {}
            }
        }
    }
}

/// Why a command about a key was not done.
#[derive(Clone, Debug)]
pub(crate) enum Gone {
    /// The node that has the key said no, or its connection does not work.
    Trouble(Trouble),
    /// No node was found that has it, in time.
    Failure(Failure),
}

impl From<Failure> for Gone {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Trouble(trouble) => trouble.into(),
            Gone::Failure(failure) => failure,
        }
    }
}

/// How long a command has been tried.
#[derive(Default)]
struct Patience {
    began: Option<Instant>,
    wait: Duration,
}

impl Patience {
    /// Nothing the first time, for it is known where to go; from then on longer and longer.
    fn wait(&mut self, trouble: &Trouble) -> Result<(), Failure> {
        let Some(began) = self.began else {
            self.began = Some(Instant::now());
            self.wait = WAIT_MIN;
            return Ok(());
        };
        interrupt::check()?;
        if began.elapsed() >= PATIENCE {
            return Err(Failure::new(format!("{trouble}, for {} seconds", PATIENCE.as_secs())));
        }
        thread::sleep(self.wait);
        self.wait = (self.wait * 2).min(WAIT_MAX);
        Ok(())
    }
}
