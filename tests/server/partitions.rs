//! Tests the partitions of docs/clusters.md: one filter over three primaries, with the helpers of examples/ and the
//! cluster clients of Python and Node.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::clients::{Program, url};
use crate::harness::{Cluster, Site, Test, show, tests, wait_until};

pub(crate) const TESTS: &[Test] = tests![
    partitions_stay_whole_with_python_while_the_cluster_changes,
    partitions_stay_whole_with_node_while_the_cluster_changes,
];

/// Time limit for a line of an example. Exceeding it means a hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts three primaries with a third of the slots each, and a replica of the first primary.
fn start(site: &Site) -> Cluster {
    let cluster = Cluster::start([(); 4].map(|()| site.launch()), 3);
    let (mut first, mut replica) = (cluster.client(0), cluster.client(3));
    assert_eq!(replica.say(&format!("CLUSTER REPLICATE {}", cluster.id(0))), "+OK");
    wait_until("the replica", || replica.info("master_link_status").as_deref() == Some("up"));
    // A primary ignores a request for a failover from a replica that it does not know yet.
    wait_until("the primary to know it", || show(&first.call(&["CLUSTER", "NODES"])).contains("slave"));
    cluster
}

/// Moves the slot of a partition, with its keys, from its primary to the next primary.
fn move_a_slot(cluster: &Cluster) {
    let slot = cluster.client(0).int("CLUSTER KEYSLOT {0}");
    let owns = |node: &usize| !cluster.client(*node).say("BF.CARD seen:{0}").starts_with('-');
    let from = (0..3).find(owns).expect("an owner");
    let to = (from + 1) % 3;
    cluster.begin_move(slot, from, to);
    cluster.migrate("seen:{0}", from, to);
    cluster.end_move(slot, to);
    assert_eq!(cluster.client(to).int("EXISTS seen:{0}"), 1);
    // Waits for the replica too: nodes do not vote for a replica that claims the moved slot for its primary.
    let moved = format!("-MOVED {slot} 127.0.0.1:{}", cluster.nodes[to].port());
    wait_until("all nodes to know", || {
        (0..4).filter(|node| *node != to).all(|node| cluster.client(node).say("BF.CARD seen:{0}") == moved)
    });
}

/// Makes the replica a primary, waits until the example uses it, and stops its former primary. node-redis 5.5 waits
/// forever if a primary stops before it has redirected the client.
fn fail_over(cluster: &mut Cluster) {
    // A server abandons a manual failover after five seconds, and a node votes again only after twice the node timeout.
    // So the timeout must be short for another attempt to succeed.
    for node in &cluster.nodes {
        assert_eq!(node.client().say("CONFIG SET cluster-node-timeout 2500"), "+OK");
    }
    let mut replica = cluster.client(3);
    let is_done = (0..12).any(|_| {
        assert_eq!(replica.say("CLUSTER FAILOVER"), "+OK");
        (0..60).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            replica.info("role").as_deref() != Some("slave")
        })
    });
    assert!(is_done, "the replica has not become a primary");
    let mut is_used = || show(&replica.call(&["INFO", "commandstats"])).contains("cmdstat_bf.mexists");
    wait_until("the example to use the new primary", &mut is_used);
    drop(cluster.nodes.remove(0));
}

fn stay_whole(site: &Site, script: &str, library: &str) {
    for Program { name, command } in Program::find(script, library) {
        stays_whole(site, &name, command);
    }
}

fn stays_whole(site: &Site, script: &str, mut example: Command) {
    let mut cluster = start(site);
    example.arg(url(&cluster.nodes[1])).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = example.spawn().expect("start the example");
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(running.stdout.take().expect("its output"));
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let next = || lines.recv_timeout(PATIENCE).unwrap_or_default();
    let first = next();
    // The counts are the same in every language, because the partitions, hashes and probes of items never change.
    assert_eq!(first, "there: 257 of 50000 absent, in one filter 360; 0 grew", "{script}");
    assert_eq!(next(), "checking");
    // Each primary has a third of the partitions, and one of them the single filter too.
    let parts: i64 = (0..3)
        .map(|node| cluster.client(node).int("DBSIZE"))
        .inspect(|keys| assert!((8..=9).contains(keys)))
        .sum();
    assert_eq!(parts, 25);
    for key in ["seen:{10}", "seen:{25}", "seen:{114}", "seen:{40}"] {
        assert!(
            (0..3).any(|node| cluster.client(node).say(&format!("EXISTS {key}")) == "1"),
            "{script}: {key}"
        );
    }
    move_a_slot(&cluster);
    fail_over(&mut cluster);
    std::thread::sleep(Duration::from_millis(500));
    running.stdin.take().expect("its input").write_all(b"\n").expect("make it end");
    let last = (0..1000).map(|_| next()).find(|line| !line.starts_with("once more")).unwrap_or_default();
    if last.is_empty() {
        running.kill().expect("stop the example");
    }
    assert!(last.ends_with("none lost"), "{script}: {last}");
    assert!(running.wait().expect("its end").success());
}

fn partitions_stay_whole_with_python_while_the_cluster_changes(site: &Site) {
    stay_whole(site, "python/try_partitions.py", "redis");
}

fn partitions_stay_whole_with_node_while_the_cluster_changes(site: &Site) {
    stay_whole(site, "node/try_partitions.js", "redis");
}
