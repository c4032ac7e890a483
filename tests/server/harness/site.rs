//! The environment of the tests: the servers that were found, and the module file.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, ROOT, Server};

/// The family of a server. Their recent versions have different module APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Redis,
    Valkey,
}

/// One server binary with the module to load into it.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// The name for its tests, such as `redis-7.0.15`.
    pub(crate) name: String,
    pub(crate) binary: PathBuf,
    pub(crate) module: PathBuf,
    pub(crate) family: Family,
    /// Major, minor and patch version.
    pub(crate) version: (u32, u32, u32),
    /// The environment of the module, if its processor or C library is not that of the tests.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// An environment in which a wrapper runs the server: `SERVERS` names the wrapper, and `MODULE_HOST` its kind. The
/// process of the tests cannot load a module of this environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// `qemu`: an emulated processor. The memory of the process is that of the emulator.
    Emulator,
    /// `musl`: another C library.
    Musl,
}

impl Elsewhere {
    fn find() -> Result<Option<Self>, String> {
        match std::env::var("MODULE_HOST").unwrap_or_default().as_str() {
            "" => Ok(None),
            "qemu" => Ok(Some(Self::Emulator)),
            "musl" => Ok(Some(Self::Musl)),
            other => Err(format!("MODULE_HOST={other} is neither qemu nor musl")),
        }
    }
}

impl Site {
    /// Returns every server in `SERVERS` (separated by commas), or `redis-server` and `valkey-server` on the PATH.
    pub(crate) fn find_all() -> Result<Vec<Self>, String> {
        let module = find_module()?;
        let named = std::env::var("SERVERS").unwrap_or_default();
        let named: Vec<&str> = named.split(',').map(str::trim).filter(|path| !path.is_empty()).collect();
        let binaries: Vec<PathBuf> = if named.is_empty() {
            ["redis-server", "valkey-server"].iter().filter_map(|name| on_path(name)).collect()
        } else {
            named.iter().map(|name| on_path(name).unwrap_or_else(|| PathBuf::from(name))).collect()
        };
        if binaries.is_empty() {
            return Err(
                "no server found: put redis-server or valkey-server on the PATH, or name servers in \
                        SERVERS=path,path"
                    .to_owned(),
            );
        }
        let mut sites: Vec<Self> = Vec::new();
        for binary in binaries {
            let mut site = Self::at(&binary, &module)?;
            let twins = sites.iter().filter(|other| other.name.starts_with(&site.name)).count();
            if twins > 0 {
                site.name = format!("{}-{}", site.name, twins + 1);
            }
            sites.push(site);
        }
        Ok(sites)
    }

    fn at(binary: &Path, module: &Path) -> Result<Self, String> {
        let output = Command::new(binary)
            .arg("--version")
            .output()
            .map_err(|error| format!("cannot run server {}: {error}", binary.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (family, version) =
            parse_version(&text).ok_or_else(|| format!("{}: no version in '{text}'", binary.display()))?;
        let label = if family == Family::Redis { "redis" } else { "valkey" };
        let (major, minor, patch) = version;
        Ok(Self {
            name: format!("{label}-{major}.{minor}.{patch}"),
            binary: binary.to_owned(),
            module: module.to_owned(),
            family,
            version,
            elsewhere: Elsewhere::find()?,
        })
    }

    /// Returns whether this is a build of a development branch. Its version is 255.255.255, which does not show its
    /// features.
    pub(crate) fn is_in_development(&self) -> bool {
        self.version == (255, 255, 255)
    }

    /// Returns whether this is Redis from `redis` or Valkey from `valkey` on; `None` means no version so far. A
    /// development build counts as newer than every release, so tests expect the features of the newest ones.
    pub(crate) fn from(&self, redis: Option<(u32, u32)>, valkey: Option<(u32, u32)>) -> bool {
        let first = if self.family == Family::Redis { redis } else { valkey };
        first.is_some_and(|first| (self.version.0, self.version.1) >= first)
    }

    /// Returns whether the resident memory and the address space of the server are an emulator's. If so, skips the
    /// running test.
    pub(crate) fn hides_memory(&self) -> bool {
        let hides = self.elsewhere == Some(Elsewhere::Emulator);
        if hides {
            super::skip("the memory is the emulator's");
        }
        hides
    }

    /// Returns a server of this kind with the module, before its start.
    pub(crate) fn launch(&self) -> Launch {
        Launch::new(self)
    }

    /// Starts a server with the module and default settings.
    pub(crate) fn start(&self) -> Server {
        self.launch().start()
    }
}

fn find_module() -> Result<PathBuf, String> {
    let path = std::env::var_os("MODULE_SO")
        .map_or_else(|| Path::new(ROOT).join("target/release/libeverbloom.so"), PathBuf::from);
    path.canonicalize().map_err(|error| {
        format!("no module file {} ({error}): run `cargo build --release`, or set MODULE_SO", path.display())
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return None;
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Parses `Redis server v=7.0.15 sha=...` or `Valkey server v=8.0.1 sha=...`.
fn parse_version(text: &str) -> Option<(Family, (u32, u32, u32))> {
    let family = if text.starts_with("Valkey") { Family::Valkey } else { Family::Redis };
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    Some((family, (parts.next()??, parts.next()??, parts.next()??)))
}
