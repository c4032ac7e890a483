//! The memory limit of a control group (cgroup), which containers and systemd set. If its processes take more memory,
//! the kernel ends one of them (see the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst).

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns the least memory limit in bytes of the cgroup of this process and its parents; `None` if there is none. `root`
/// is the root of the file system. Parents outside of a container's mount cannot be seen.
pub fn memory_limit_bytes(root: &Path) -> Option<u64> {
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let cgroups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let hierarchies = mounts.lines().filter_map(Hierarchy::of_mount);
    hierarchies.filter_map(|hierarchy| hierarchy.least_limit(root, &cgroups)).min()
}

/// A mounted hierarchy of cgroups that may limit memory.
struct Hierarchy {
    /// Where it is mounted.
    mount_point: PathBuf,
    /// The path of the mounted cgroup in its hierarchy.
    mounted: PathBuf,
    /// The controller in the lines of `/proc/self/cgroup`, and the file with the limit of a cgroup.
    controller: &'static str,
    limit_file: &'static str,
}

impl Hierarchy {
    /// Returns the hierarchy that a line of `/proc/self/mountinfo` describes; `None` for other mounts.
    fn of_mount(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        let (mounted, mount_point) = (mount.next()?, mount.next()?);
        let (controller, limit_file) = match (file_system.next()?, file_system.nth(1)) {
            ("cgroup2", _) => ("", "memory.max"),
            ("cgroup", Some(options)) if options.split(',').any(|option| option == "memory") => {
                ("memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        Some(Self {
            mount_point: unescaped(mount_point),
            mounted: unescaped(mounted),
            controller,
            limit_file,
        })
    }

    /// Returns the least limit of the cgroup of this process and its parents, up to the mounted one. `cgroups` is the
    /// text of `/proc/self/cgroup`.
    fn least_limit(&self, root: &Path, cgroups: &str) -> Option<u64> {
        let path = cgroups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let mut controllers = fields.next()?.split(',');
            controllers.any(|controller| controller == self.controller).then(|| fields.next())?
        })?;
        let mount_point = root.join(self.mount_point.strip_prefix("/").ok()?);
        // If the cgroup is not in the mount, the mounted one is that of the container.
        let below = Path::new(path).strip_prefix(&self.mounted).unwrap_or(Path::new(""));
        let is_outside = below.components().any(|component| component == Component::ParentDir);
        let own = if is_outside { mount_point.clone() } else { mount_point.join(below) };
        let cgroups = own.ancestors().take_while(|cgroup| cgroup.starts_with(&mount_point));
        cgroups.filter_map(|cgroup| self.limit_of(cgroup)).min()
    }

    fn limit_of(&self, cgroup: &Path) -> Option<u64> {
        fs::read_to_string(cgroup.join(self.limit_file)).ok()?.trim_end().parse().ok()
    }
}

/// Returns a path of `/proc/self/mountinfo`, which has some bytes as a backslash and three octal digits.
fn unescaped(path: &str) -> PathBuf {
    let mut parts = path.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (code, part.get(3..)) {
            (Some(code), Some(rest)) => {
                text.push(code.into());
                text.push_str(rest);
            }
            _ => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text.into()
}
