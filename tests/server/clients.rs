//! docs/clients.md: every listing is a file of examples/, and does what it says.

use crate::harness::{Site, Test, tests};
use crate::runtimes::{root, run};

#[path = "../../examples/rust/use_redis_rs.rs"]
mod use_redis_rs;

pub(crate) const TESTS: &[Test] = tests![
    redis_py_is_used_as_its_page_says,
    valkey_glide_is_used_as_its_page_says,
    node_redis_is_used_as_its_page_says,
    ioredis_is_used_as_its_page_says,
    redis_rs_is_used_as_its_page_says,
    the_page_lists_what_is_tested,
];

fn is_done(site: &Site, script: &str, library: &str) {
    let Some((_server, told)) = run(site, script, library) else { return };
    assert!(told.ends_with("done\n"), "{script}: {told}");
}

fn redis_py_is_used_as_its_page_says(site: &Site) {
    is_done(site, "python/use_redis_py.py", "redis");
}

fn valkey_glide_is_used_as_its_page_says(site: &Site) {
    is_done(site, "python/use_valkey_glide.py", "glide_sync");
}

fn node_redis_is_used_as_its_page_says(site: &Site) {
    is_done(site, "node/use_node_redis.js", "redis");
}

fn ioredis_is_used_as_its_page_says(site: &Site) {
    is_done(site, "node/use_ioredis.js", "ioredis");
}

fn redis_rs_is_used_as_its_page_says(site: &Site) {
    for protocol in ["resp2", "resp3"] {
        let server = site.start();
        let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port());
        use_redis_rs::run(&url).expect("the example");
    }
}

fn the_page_lists_what_is_tested(_: &Site) {
    let page = std::fs::read_to_string(root().join("docs/clients.md")).expect("docs/clients.md");
    let scripts = [
        "python/use_redis_py.py",
        "python/use_valkey_glide.py",
        "node/use_node_redis.js",
        "node/use_ioredis.js",
        "rust/use_redis_rs.rs",
    ];
    for script in scripts {
        let listing = std::fs::read_to_string(root().join("examples").join(script)).expect("an example");
        assert!(page.contains(&listing), "docs/clients.md lists another examples/{script}");
    }
}
