//! The memory limit of a cgroup, read from directories that the tests make.

use std::fs;
use std::path::Path;

use crate::support::cgroup::memory_limit_bytes;

/// A container of Kubernetes with cgroup v2 and a namespace: its own cgroup is the root of the mount.
const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate";
const V1_MOUNTS: &str = "25 24 0:22 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct
26 24 0:23 / /sys/fs/cgroup/memory rw,relatime shared:9 master:2 - cgroup cgroup rw,memory";

/// Returns the limit with these files under the root of the file system. `files` has paths and their contents.
fn limit(cgroups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
    let root = tempfile::tempdir().unwrap();
    let system = [("proc/self/cgroup", cgroups), ("proc/self/mountinfo", mounts)];
    for (path, text) in system.iter().chain(files) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    memory_limit_bytes(root.path())
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
    assert_eq!(memory_limit_bytes(Path::new("/nonexistent")), None);
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
