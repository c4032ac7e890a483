//! The memory limit and the free memory of a cgroup, read from directories that the tests make.

use std::fs;
use std::path::Path;

use crate::support::cgroup::{Allowance, MemoryCgroups};

/// A container of Kubernetes with cgroup v2 and a namespace: its own cgroup is the root of the mount.
const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate";
const V1_MOUNTS: &str = "25 24 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
26 24 0:23 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory";

/// Returns the limit, the free memory, and the free memory while the server loads, with these files under the root of the
/// file system. `files` has paths and their contents.
fn limit_and_free(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> [Option<u64>; 3] {
    let root = tempfile::tempdir().unwrap();
    let system = [("proc/self/cgroup", cgroups), ("proc/self/mountinfo", mounts)];
    for (path, text) in system.iter().chain(files) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let cgroups = MemoryCgroups::of_process(root.path());
    [cgroups.limit_bytes(), cgroups.free_bytes(false), cgroups.free_bytes(true)]
}

fn limit(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
    limit_and_free(cgroups, mounts, files)[0]
}

#[test]
fn the_least_limit_of_a_cgroup_and_its_parents_is_found() {
    let limit_of = |cgroup, files: &[_]| limit(cgroup, V2_MOUNT, files);
    assert_eq!(limit_of("0::/\n", &[("sys/fs/cgroup/memory.max", "1073741824\n")]), Some(1 << 30));
    let [outer, inner] = ["sys/fs/cgroup/a/memory.max", "sys/fs/cgroup/a/b/memory.max"];
    let path = "0::/a/b\n";
    assert_eq!(limit_of(path, &[(outer, "max\n"), (inner, "2000000\n")]), Some(2_000_000));
    assert_eq!(limit_of(path, &[(outer, "1000000\n"), (inner, "2000000\n")]), Some(1_000_000));
    assert_eq!(limit_of(path, &[(outer, "1000000\n"), (inner, "max\n")]), Some(1_000_000));
    assert_eq!(limit_of(path, &[(outer, "max\n"), (inner, "max\n")]), None);
    // The limits of other cgroups and files outside of the mount are not read.
    for other in ["sys/fs/cgroup/a/c/memory.max", "sys/fs/memory.max", "sys/fs/cgroup/a/b/memory.high"] {
        assert_eq!(limit_of(path, &[(other, "1\n"), (inner, "2000000\n")]), Some(2_000_000), "{other}");
    }
}

#[test]
fn the_limit_of_version_1_is_found() {
    let own = "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes";
    let parent = "sys/fs/cgroup/memory/docker/memory.limit_in_bytes";
    let unlimited = "9223372036854771712\n";
    for cgroups in
        ["4:memory:/docker/x\n1:cpu,cpuacct:/other\n0::/docker/x\n", "7:hugetlb,memory:/docker/x\n"]
    {
        assert_eq!(limit(cgroups, V1_MOUNTS, &[(own, "5000000\n"), (parent, unlimited)]), Some(5_000_000));
        assert_eq!(limit(cgroups, V1_MOUNTS, &[(own, unlimited), (parent, "4000000\n")]), Some(4_000_000));
    }
    // Both versions are mounted, and one of them has the memory controller.
    let both = format!("{V2_MOUNT}\n{V1_MOUNTS}\n").replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ");
    assert_eq!(limit("4:memory:/docker/x\n0::/docker/x\n", &both, &[(own, "5000000\n")]), Some(5_000_000));
}

/// Without a namespace, a container sees the path of its cgroup on the host, but only its own cgroup is mounted.
#[test]
fn a_cgroup_that_is_mounted_itself_is_found() {
    let mounts =
        r"26 24 0:23 /system.slice/docker\134x2d1.scope /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
    for (path, file) in [
        ("/system.slice/docker\\x2d1.scope", "memory.limit_in_bytes"),
        ("/system.slice/docker\\x2d1.scope/sub", "sub/memory.limit_in_bytes"),
        // The cgroup is outside of the mount.
        ("/elsewhere", "memory.limit_in_bytes"),
        ("/../elsewhere", "memory.limit_in_bytes"),
    ] {
        let file = format!("sys/fs/cgroup/memory/{file}");
        let cgroups = format!("4:memory:{path}\n");
        assert_eq!(limit(&cgroups, mounts, &[(&file, "3000000\n")]), Some(3_000_000), "{path}");
    }
}

#[test]
fn files_that_are_missing_or_damaged_limit_nothing() {
    assert_eq!(MemoryCgroups::of_process(Path::new("/nonexistent")).limit_bytes(), None);
    let file = "sys/fs/cgroup/memory.max";
    for text in ["", "-1", "18446744073709551616", "1 2", "\u{fffd}"] {
        assert_eq!(limit("0::/\n", V2_MOUNT, &[(file, text)]), None, "{text}");
    }
    for (cgroups, mounts) in [
        ("", V2_MOUNT),
        ("0::/", ""),
        ("0:", V2_MOUNT),
        ("0::/", "30 24 0:26 / /sys/fs/cgroup"),
        ("0::/", "- cgroup2"),
        ("0::/", "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs rw,memory"),
        ("4:memory:/", V2_MOUNT),
    ] {
        assert_eq!(limit(cgroups, mounts, &[(file, "1000\n")]), None, "{cgroups}, {mounts}");
    }
}

/// A cgroup has what its limit leaves, less a part for the server. Cached files count as free.
#[test]
fn the_free_memory_is_that_of_the_fullest_cgroup() {
    const LIMIT: u64 = 160_000_000;
    let limit = LIMIT.to_string();
    let unlimited = "9223372036854771712";
    for (mounts, cgroups, root, names, cached, infinite) in [
        (V2_MOUNT, "0::/a/b", "sys/fs/cgroup", ["memory.max", "memory.current"], "", "max"),
        (
            V1_MOUNTS,
            "4:memory:/a/b",
            "sys/fs/cgroup/memory",
            ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            "total_",
            unlimited,
        ),
    ] {
        let free = |inner: [&str; 3], outer: [&str; 3]| {
            let dirs = [(format!("{root}/a/b"), inner), (format!("{root}/a"), outer)];
            let files: Vec<_> = dirs
                .iter()
                .flat_map(|(dir, [limit, usage, statistics])| {
                    let files = [(names[0], limit), (names[1], usage), ("memory.stat", statistics)];
                    files.map(|(name, text)| (format!("{dir}/{name}"), *text))
                })
                .collect();
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
            let [_, free, while_loading] = limit_and_free(cgroups, mounts, &files);
            // Less is left to a server that loads.
            assert!(while_loading >= free);
            free
        };
        let anonymous = "anon 7\nfile 9\n";
        let files = format!("anon 7\n{cached}inactive_file 2000000\n{cached}active_file 1000000\nslab 5\n");
        let none = [infinite, "0", ""];
        assert_eq!(free([&limit, "20000000\n", anonymous], none), Some(130_000_000));
        assert_eq!(free([&limit, "20000000\n", &files], none), Some(133_000_000));
        assert_eq!(free(none, [&limit, "20000000\n", &files]), Some(133_000_000));
        assert_eq!(free([&limit, "1000000", ""], [&limit, "50000000", ""]), Some(100_000_000));
        assert_eq!(free(["64000000", "1000000", ""], none), Some(63_000_000 - (8 << 20)));
        // Cached files that must be written first are not free.
        let dirty = if cached.is_empty() {
            "file_dirty 1500000\nfile_writeback 500000\n"
        } else {
            "total_dirty 1500000\ntotal_writeback 500000\n"
        };
        assert_eq!(free([&limit, "20000000\n", &format!("{files}{dirty}")], none), Some(131_000_000));
        // A cgroup can have more than its limit, after the limit was lowered.
        for usage in ["150000000", "150000001", "160000000", "999000000"] {
            assert_eq!(free([&limit, usage, ""], none), Some(0), "{usage}");
        }
        let most = format!("{cached}inactive_file {0}\n{cached}active_file {0}\n", u64::MAX);
        assert_eq!(free([&limit, "20000000", &most], none), Some(LIMIT - LIMIT / 16));
        // A file that is missing or damaged limits nothing.
        assert_eq!(free([&limit, "many", ""], none).filter(|free| *free < 1 << 60), None);
        assert_eq!(
            free([&limit, "20000000", "total_inactive_file x\ninactive_file\n"], none),
            Some(130_000_000)
        );
    }
}

#[test]
fn a_server_that_loads_keeps_less_for_itself() {
    let files = [("sys/fs/cgroup/memory.max", "160000000"), ("sys/fs/cgroup/memory.current", "20000000")];
    let expected = [160_000_000, 130_000_000, 140_000_000 - (8 << 20)].map(Some);
    assert_eq!(limit_and_free("0::/", V2_MOUNT, &files), expected);
}

#[test]
fn an_allowance_is_a_part_of_the_free_memory() {
    let allowance = Allowance::new();
    // Returns whether a block is admitted, and whether the free memory was read for it.
    let admits = |size_bytes: u64, free_bytes: Option<u64>| {
        let mut is_read = false;
        let is_admitted = allowance.admits(size_bytes, || {
            is_read = true;
            free_bytes
        });
        (is_admitted, is_read)
    };
    assert_eq!(admits(1000, Some(999)), (false, true));
    assert_eq!(admits(1000, Some(1000)), (true, true));
    assert_eq!(admits(1, Some(0)), (false, true));
    // An eighth of the 8,000 bytes that are left may be allocated without another look.
    assert_eq!(admits(1000, Some(9000)), (true, true));
    assert_eq!(admits(600, Some(0)), (true, false));
    assert_eq!(admits(401, Some(0)), (false, true));
    assert_eq!(admits(400, Some(0)), (true, false));
    assert_eq!(admits(1, Some(0)), (false, true));
    // Without a limit, or with much free memory, the next look is after 4 MiB.
    for free_bytes in [None, Some(1 << 40)] {
        assert_eq!(admits(1 << 30, free_bytes), (true, true));
        assert_eq!(admits(4 << 20, Some(0)), (true, false));
        assert_eq!(admits(1, Some(0)), (false, true));
    }
    assert_eq!(admits(u64::MAX, None), (true, true));
}
