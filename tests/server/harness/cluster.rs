//! Clusters of real servers.

use super::{Client, Launch, Server, wait_until};

/// Nodes that know each other.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    /// Starts the nodes. The first `owners` nodes get equal shares of the slots, and the others get none.
    pub(crate) fn start(launches: impl IntoIterator<Item = Launch>, owners: usize) -> Self {
        let nodes = launches.into_iter().map(|launch| launch.in_cluster().start()).collect();
        let cluster = Self { nodes };
        for (number, node) in cluster.nodes.iter().enumerate() {
            let mut client = node.client();
            if number < owners {
                let (from, to) = (number * 16384 / owners, (number + 1) * 16384 / owners - 1);
                assert_eq!(client.say(&format!("CLUSTER ADDSLOTSRANGE {from} {to}")), "+OK");
            }
            // Nodes with equal epochs may reject the owner of a slot that has just moved.
            assert_eq!(client.say(&format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1)), "+OK");
            if number > 0 {
                let meet = format!("CLUSTER MEET 127.0.0.1 {} {}", node.port(), node.bus_port());
                assert_eq!(cluster.client(0).say(&meet), "+OK");
            }
        }
        let known = format!("cluster_known_nodes:{}\r", cluster.nodes.len());
        wait_until("the nodes to meet", || {
            cluster.nodes.iter().all(|node| {
                let info = text(&mut node.client(), "INFO");
                ["cluster_state:ok", "cluster_slots_assigned:16384", &known]
                    .iter()
                    .all(|word| info.contains(word))
            })
        });
        cluster.settle();
        cluster
    }

    pub(crate) fn client(&self, node: usize) -> Client {
        self.nodes[node].client()
    }

    /// Returns the id of a node.
    pub(crate) fn id(&self, node: usize) -> String {
        text(&mut self.client(node), "MYID")
    }

    /// Begins to move a slot, as `redis-cli --cluster` does.
    pub(crate) fn begin_move(&self, slot: i64, from: usize, to: usize) {
        let (importing, migrating) = (self.id(from), self.id(to));
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {importing}");
        assert_eq!(self.client(to).say(&importing), "+OK");
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {migrating}");
        assert_eq!(self.client(from).say(&migrating), "+OK");
    }

    /// Moves a key to a node.
    pub(crate) fn migrate(&self, key: &str, from: usize, to: usize) {
        let line = format!("MIGRATE 127.0.0.1 {} {key} 0 60000", self.nodes[to].port());
        assert_eq!(self.client(from).say(&line), "+OK");
    }

    /// Ends the move of a slot. Tells all primaries the new owner: a primary that does not know it may redirect clients
    /// back, or claim the slot.
    pub(crate) fn end_move(&self, slot: i64, to: usize) {
        let line = format!("CLUSTER SETSLOT {slot} NODE {}", self.id(to));
        assert_eq!(self.client(to).say(&line), "+OK");
        for node in &self.nodes {
            let mut client = node.client();
            if client.info("role").as_deref() == Some("master") {
                assert_eq!(client.say(&line), "+OK");
            }
        }
    }

    /// Repeats the end of a move on which the nodes do not agree, with a higher epoch, as `redis-cli --cluster fix`
    /// does. The cause was not observed. It may be that a former owner gets a higher epoch, because two nodes had the
    /// same one, and claims the slot before it knows the new owner.
    pub(crate) fn repeat_end_of_move(&self, slot: i64, to: usize) {
        self.client(to).say("CLUSTER BUMPEPOCH");
        self.end_move(slot, to);
    }

    /// Waits until the nodes [agree](Self::agrees).
    pub(crate) fn settle(&self) {
        wait_until("nodes agree", || self.agrees());
    }

    /// Returns whether all nodes agree on the owner and the epoch of every slot. A node that gets a slot claims it with
    /// the highest epoch that it knows. If it does not know the epoch of the slot's previous move, a node that receives
    /// both claims assigns the slot to the previous owner, which no longer has the keys.
    pub(crate) fn agrees(&self) -> bool {
        let views = self.nodes.iter().map(|node| {
            let mut view: Vec<String> = text(&mut node.client(), "NODES").lines().map(owned).collect();
            view.sort_unstable();
            view
        });
        let views: Vec<_> = views.collect();
        views.iter().all(|view| *view == views[0])
    }
}

/// Returns the reply of a subcommand of CLUSTER.
fn text(client: &mut Client, word: &str) -> String {
    String::from_utf8(client.bytes(&["CLUSTER", word])).unwrap()
}

/// Returns a node's id, epoch and slots from a line of CLUSTER NODES, without the entries of slots that are moving.
fn owned(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let slots = words[8..].iter().filter(|slots| !slots.starts_with('['));
    [words[0], words[6]].iter().chain(slots).copied().collect::<Vec<_>>().join(" ")
}
