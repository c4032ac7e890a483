//! The memory of the control groups (cgroups) that contain the server. Containers and systemd limit it. If the processes
//! of a cgroup write to more memory, the kernel ends one of them (see the kernel's Documentation/admin-guide/cgroup-v2.rst
//! and cgroup-v1/memory.rst). The allocator of the module asks for the free memory before it makes large blocks, so
//! nothing here allocates a large block.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::str;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One in this many bytes of a limit is left to the server, which needs memory for its clients and ends without it.
const SERVER_PART: u64 = 16;
/// The least number of bytes that are left to the server. A request of some thousand items needs one MiB, and a child that
/// saves a few.
const SERVER_MIN_BYTES: u64 = 8 << 20;
/// Most bytes of the files that are read here. `memory.stat`, the longest, has 2 to 4 KB.
const FILE_MAX_BYTES: usize = 8 << 10;

/// The cgroup of this process and its parents, which also limit it. Parents outside of a container's mount cannot be
/// seen.
pub struct MemoryCgroups(Vec<MemoryCgroup>);

/// The files of a cgroup.
struct MemoryCgroup {
    limit: PathBuf,
    usage: PathBuf,
    statistics: PathBuf,
    /// The names of the statistics of cached files.
    cached: CachedFiles,
}

/// The names in `memory.stat` of the bytes of cached files, and of those that the system must write first.
#[derive(Clone, Copy)]
struct CachedFiles {
    all: [&'static str; 2],
    unwritten: [&'static str; 2],
}

const CACHED_FILES_V2: CachedFiles =
    CachedFiles { all: ["inactive_file", "active_file"], unwritten: ["file_dirty", "file_writeback"] };

const CACHED_FILES_V1: CachedFiles = CachedFiles {
    all: ["total_inactive_file", "total_active_file"],
    unwritten: ["total_dirty", "total_writeback"],
};

impl MemoryCgroups {
    /// Returns no cgroups.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the cgroups of this process. `root` is the root of the file system.
    pub fn of_process(root: &Path) -> Self {
        let read = |path| fs::read_to_string(root.join(path)).unwrap_or_default();
        let (mounts, cgroups) = (read("proc/self/mountinfo"), read("proc/self/cgroup"));
        let hierarchies = mounts.lines().filter_map(Hierarchy::of_mount);
        Self(hierarchies.filter_map(|hierarchy| hierarchy.cgroups(root, &cgroups)).flatten().collect())
    }

    /// Returns the least limit in bytes; `None` if there is none.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.0.iter().filter_map(MemoryCgroup::limit_bytes).min()
    }

    /// Returns how many bytes the processes can write to before the kernel ends one of them, less what is left to the
    /// server ([`SERVER_PART`], [`SERVER_MIN_BYTES`]); `None` if there is no limit. A server that loads its data has no
    /// clients to serve, so only the minimum is left to it then: data that was saved must load again. Memory that has been
    /// allocated but not written to counts as free. Swap does not count. Takes 20 to 50 us.
    pub fn free_bytes(&self, is_loading: bool) -> Option<u64> {
        self.0.iter().filter_map(|cgroup| cgroup.free_bytes(is_loading)).min()
    }
}

impl MemoryCgroup {
    fn limit_bytes(&self) -> Option<u64> {
        with_text(&self.limit, |text| text.trim_end().parse().ok())
    }

    fn free_bytes(&self, is_loading: bool) -> Option<u64> {
        let limit_bytes = self.limit_bytes()?;
        let usage_bytes: u64 = with_text(&self.usage, |text| text.trim_end().parse().ok())?;
        // The kernel drops cached files before it ends a process, except for those that it must write first.
        let cached_bytes = with_text(&self.statistics, |text| Some(self.cached_bytes(text))).unwrap_or(0);
        let used_bytes = usage_bytes.saturating_sub(cached_bytes);
        let part_bytes = if is_loading { 0 } else { limit_bytes / SERVER_PART };
        let server_bytes = part_bytes.max(SERVER_MIN_BYTES);
        Some(limit_bytes.saturating_sub(used_bytes).saturating_sub(server_bytes))
    }

    fn cached_bytes(&self, statistics: &str) -> u64 {
        let sum = |names: [&str; 2]| -> u64 {
            let fields = statistics.lines().filter_map(|line| line.split_once(' '));
            let fields = fields.filter(|(name, _)| names.contains(name));
            fields.filter_map(|(_, bytes)| bytes.trim_end().parse::<u64>().ok()).fold(0, u64::saturating_add)
        };
        sum(self.cached.all).saturating_sub(sum(self.cached.unwritten))
    }
}

/// Returns what `parse` makes of the text of a file. O([`FILE_MAX_BYTES`]), without an allocation.
fn with_text<T>(path: &Path, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut file = fs::File::open(path).ok()?;
    let mut bytes = [0; FILE_MAX_BYTES];
    let mut length = 0;
    loop {
        match file.read(bytes.get_mut(length..)?).ok()? {
            0 => break,
            more => length = length.saturating_add(more),
        }
    }
    parse(str::from_utf8(bytes.get(..length)?).ok()?)
}

/// How many bytes may be allocated before the free memory of the cgroups is read again.
pub struct Allowance(AtomicU64);

impl Allowance {
    /// The largest allowance: half of what is left to the server at least, because the limit may fall meanwhile. Writing to
    /// so many bytes takes a hundred times as long as reading the free memory.
    const MAX_BYTES: u64 = 4 << 20;
    /// The allowance is this part of the free memory, so that it ends before the memory does even if other processes
    /// need as much.
    const PART: u64 = 8;

    /// Returns an allowance that is used up.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns whether a block of this size fits in the free memory. `free_bytes` returns the free memory; it is called
    /// only if the allowance is used up.
    #[inline]
    pub fn admits(&self, size_bytes: u64, free_bytes: impl FnOnce() -> Option<u64>) -> bool {
        // Other threads allocate no filters. An update that is lost makes the allowance a little larger.
        if let Some(rest_bytes) = self.0.load(Relaxed).checked_sub(size_bytes) {
            self.0.store(rest_bytes, Relaxed);
            return true;
        }
        let Some(rest_bytes) = free_bytes().unwrap_or(u64::MAX).checked_sub(size_bytes) else {
            return false;
        };
        self.0.store((rest_bytes / Self::PART).min(Self::MAX_BYTES), Relaxed);
        true
    }
}

/// A mounted hierarchy of cgroups that may limit memory.
struct Hierarchy {
    /// Where it is mounted.
    mount_point: PathBuf,
    /// The path of the mounted cgroup in its hierarchy.
    mounted: PathBuf,
    /// The controller in the lines of `/proc/self/cgroup`.
    controller: &'static str,
    /// The names of the files with the limit and the usage of a cgroup.
    files: [&'static str; 2],
    cached: CachedFiles,
}

impl Hierarchy {
    /// Returns the hierarchy that a line of `/proc/self/mountinfo` describes; `None` for other mounts.
    fn of_mount(line: &str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        let (mounted, mount_point) = (mount.next()?, mount.next()?);
        let (controller, files, cached) = match (file_system.next()?, file_system.nth(1)) {
            ("cgroup2", _) => ("", ["memory.max", "memory.current"], CACHED_FILES_V2),
            ("cgroup", Some(options)) if options.split(',').any(|option| option == "memory") => {
                ("memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"], CACHED_FILES_V1)
            }
            _ => return None,
        };
        Some(Self {
            mount_point: unescaped(mount_point),
            mounted: unescaped(mounted),
            controller,
            files,
            cached,
        })
    }

    /// Returns the cgroup of this process and its parents, up to the mounted one. `cgroups` is the text of
    /// `/proc/self/cgroup`.
    fn cgroups(&self, root: &Path, cgroups: &str) -> Option<Vec<MemoryCgroup>> {
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
        Some(cgroups.map(|cgroup| self.cgroup(cgroup)).collect())
    }

    fn cgroup(&self, dir: &Path) -> MemoryCgroup {
        let [limit, usage] = self.files.map(|file| dir.join(file));
        MemoryCgroup { limit, usage, statistics: dir.join("memory.stat"), cached: self.cached }
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
