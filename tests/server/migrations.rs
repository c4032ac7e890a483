//! Every migration of examples/ works as documented.

use crate::harness::{Site, Test, tests};
use crate::runtimes::{Program, url};

pub(crate) const TESTS: &[Test] =
    tests![a_filter_of_go_zero_moves_with_python, a_filter_of_fnv_moves_with_node];

fn moves(site: &Site, script: &str, library: &str) {
    for program in Program::find(script, library) {
        let (name, server) = (program.name.clone(), site.start());
        let printed = program.run(&[url(&server)]);
        assert!(printed.contains("moved: 1001 items"), "{name}: {printed}");
        assert_eq!(server.client().int("DBSIZE"), 1, "{name} leaves the new filter and nothing else");
    }
}

fn a_filter_of_go_zero_moves_with_python(site: &Site) {
    moves(site, "python/migrate.py", "redis");
}

fn a_filter_of_fnv_moves_with_node(site: &Site) {
    moves(site, "node/migrate.js", "ioredis");
}
