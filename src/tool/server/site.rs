//! A server or a cluster: its address, credentials and certificates, its nodes, and the slots of keys.

use std::env;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io;
use std::iter::once;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisError,
    TlsCertificates, Value,
};

use super::connection::{CallError, Connection, call_error, integer, text};
use crate::failure::{Failure, check_interruption};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait between a read that a signal interrupted and [`check_interruption`]. In this time, another thread records
/// the signal.
const SIGNAL_DELAY: Duration = Duration::from_millis(20);

/// The options of a connection that are not part of the address.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(crate) struct ConnectionArguments {
    /// The address is a node of a cluster: send each command to the node with the key's slot
    #[arg(long, short = 'c', help_heading = "Connection")]
    cluster: bool,
    /// Use the protocol RESP3
    #[arg(long, help_heading = "Connection")]
    resp3: bool,
    /// Certificates (PEM) to trust instead of the system's, for rediss:// addresses
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    cacert: Option<PathBuf>,
    /// Client certificate (PEM) to present to the server
    #[arg(long, value_name = "FILE", requires = "key_file", help_heading = "Connection")]
    cert: Option<PathBuf>,
    /// Private key (PEM) of the client certificate
    #[arg(long = "key", value_name = "FILE", requires = "cert", help_heading = "Connection")]
    key_file: Option<PathBuf>,
}

/// A server or a cluster to connect to.
#[derive(Clone)]
pub(crate) struct Site {
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
    /// Whether redirections of a cluster are followed.
    pub(super) is_cluster: bool,
}

impl Site {
    /// Returns the site of an address: `redis://`, `rediss://`, `unix://` or `host:port`. If the address has no
    /// password, the user and the password are those of the environment variables `{variables}_USERNAME` and
    /// `{variables}_PASSWORD`.
    pub(crate) fn new(url: &str, arguments: &ConnectionArguments, variables: &str) -> Result<Self, Failure> {
        let url = if url.contains("://") { url.to_owned() } else { format!("redis://{url}") };
        // Does not use the text of the client's error, which might contain the address with a password.
        let unreadable = |_| {
            Failure::usage(
                "the address is wrong: write redis://[user[:password]@]host[:port][/db], rediss://..., unix://path or host:port",
            )
        };
        let mut info = url.as_str().into_connection_info().map_err(unreadable)?;
        let mut login = info.redis_settings().clone();
        if login.password().is_none()
            && let Ok(password) = env::var(format!("{variables}_PASSWORD"))
        {
            login = login.set_password(password);
            if let (None, Ok(username)) = (login.username(), env::var(format!("{variables}_USERNAME"))) {
                login = login.set_username(username);
            }
        }
        if arguments.resp3 {
            login = login.set_protocol(ProtocolVersion::RESP3);
        }
        info = info.set_redis_settings(login);
        Ok(Self { info, certificates: certificates(arguments)?, is_cluster: arguments.cluster })
    }

    /// Returns the number of the database of this site.
    pub(crate) fn database(&self) -> i64 {
        self.info.redis_settings().db()
    }

    /// Returns the site with another database.
    pub(crate) fn with_database(&self, database: i64) -> Self {
        let settings = self.info.redis_settings().clone().set_db(database);
        Self { info: self.info.clone().set_redis_settings(settings), ..self.clone() }
    }

    /// Returns the primaries of the cluster with their slots. Without --cluster, or if the server is not in a cluster,
    /// returns the server itself with all slots.
    pub(crate) fn nodes(&self) -> Result<Vec<Node>, Failure> {
        let alone = || vec![Node { first: 0, last: u64::MAX, address: None }];
        if !self.is_cluster {
            return Ok(alone());
        }
        match self.open(self.info.clone())?.call(&[b"CLUSTER", b"SLOTS"]) {
            Ok(Value::Array(ranges)) => Ok(ranges.iter().filter_map(|range| self.node(range)).collect()),
            Ok(_) => Err(CallError::unexpected_reply("CLUSTER SLOTS").into()),
            Err(CallError::Refused(text)) if text.contains("cluster support disabled") => Ok(alone()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the range of slots and its primary from an element of the reply of CLUSTER SLOTS.
    fn node(&self, range: &Value) -> Option<Node> {
        let Value::Array(parts) = range else { return None };
        let [first, last, Value::Array(primary), ..] = parts.as_slice() else { return None };
        let [host, port, ..] = primary.as_slice() else { return None };
        let port = u16::try_from(integer(port)?).ok()?;
        let address = self.named((text(host).unwrap_or_default(), port));
        Some(Node { first: integer(first)?, last: integer(last)?, address })
    }

    /// Returns the address of a node that a server has named. If the name has no host, the address has the host of this
    /// site.
    pub(super) fn named(&self, (host, port): (String, u16)) -> NodeAddress {
        let own_host = match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.as_str(),
            _ => "localhost",
        };
        let is_named = !host.is_empty() && host != "?";
        Some((if is_named { host } else { own_host.to_owned() }, port))
    }

    /// Returns a connection to a node.
    pub(super) fn connect_to(&self, address: &NodeAddress) -> Result<Connection, Failure> {
        let Some((host, port)) = address.clone() else { return self.open(self.info.clone()) };
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        self.open(self.info.clone().set_addr(addr))
    }

    fn open(&self, info: ConnectionInfo) -> Result<Connection, Failure> {
        let address = info.addr().to_string();
        let is_secured = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let speaks = if is_secured { " and speaks TLS at this port" } else { "" };
        let failure = |error: RedisError| {
            let error = match call_error(&error) {
                CallError::Broken(text) => {
                    format!("{text}: check the address, and that the server runs{speaks}")
                }
                refused => refused.to_string(),
            };
            Failure::of(format!("cannot connect to {address}"), error)
        };
        let client = match &self.certificates {
            Some(certificates) if is_secured => Client::build_with_tls(info, certificates.clone()),
            _ => Client::open(info),
        };
        let client = client.map_err(failure)?;
        loop {
            match client.get_connection_with_timeout(CONNECT_TIMEOUT) {
                Ok(connection) => return Ok(Connection::new(connection)),
                Err(error) if was_interrupted(&error) => {
                    sleep(SIGNAL_DELAY);
                    check_interruption()?;
                }
                Err(error) => return Err(failure(error)),
            }
        }
    }
}

impl Display for Site {
    /// Writes the address without the credentials.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.info.addr().fmt(formatter)
    }
}

/// Returns whether a signal interrupted a read of the handshake. Even stopping and continuing the process interrupts a
/// read with a time limit. The client library wraps the error in an `Arc`.
fn was_interrupted(error: &RedisError) -> bool {
    let shared = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let read_error = shared.and_then(|shared| shared.downcast_ref::<io::Error>());
    read_error.is_some_and(|error| error.kind() == io::ErrorKind::Interrupted)
}

/// The host and port of a node; `None` for the address of the site.
pub(crate) type NodeAddress = Option<(String, u16)>;

/// A range of slots and its primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) address: NodeAddress,
}

/// Returns the certificates of the options; `None` if there are none.
fn certificates(arguments: &ConnectionArguments) -> Result<Option<TlsCertificates>, Failure> {
    // Ignores the error if the provider was already set.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let read = |path: &PathBuf| fs::read(path).map_err(|error| Failure::of(path.display(), error));
    let root_cert = arguments.cacert.as_ref().map(read).transpose()?;
    let client_tls = match (&arguments.cert, &arguments.key_file) {
        (Some(cert), Some(key)) => Some(ClientTlsConfig { client_cert: read(cert)?, client_key: read(key)? }),
        _ => None,
    };
    let is_asked = root_cert.is_some() || client_tls.is_some();
    Ok(is_asked.then_some(TlsCertificates { client_tls, root_cert }))
}

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;
/// The checksum of a key that chooses its slot.
const CRC16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);

/// Returns the slot of a key.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    CRC16.checksum(tag_of(key).unwrap_or(key)) % SLOTS
}

/// Returns the hash tag of a key: the part between the first `{` and the next `}`, if it is not empty.
fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let rest = key.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'}')?;
    rest.get(..end).filter(|tag| !tag.is_empty())
}

/// Returns another key in the same slot as `key`. It ends with `mark`.
pub(crate) fn sibling(key: &[u8], mark: &str) -> Vec<u8> {
    let marked = |tagged: &[u8]| [tagged, b":", mark.as_bytes()].concat();
    if tag_of(key).is_some() {
        return marked(key);
    }
    let braced = marked(&[b"{", key, b"}"].concat());
    // An empty key, or a key that contains `}`, cannot be a hash tag. The tag is then the first number in the slot of
    // the key. About one number in 16 000 is in this slot.
    let numbered = (0u32..).map(|tag| marked(format!("{{{tag}}}").as_bytes()));
    let mut names = once(braced.clone()).chain(numbered);
    names.find(|name| slot_of(name) == slot_of(key)).unwrap_or(braced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), CRC16.checksum(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }

    #[test]
    fn a_sibling_is_another_key_of_the_same_slot() {
        for key in [&b"plain"[..], b"", b"{tag}x", b"x{tag}", b"a}b", b"a{b", b"{}", b"{}{a}", b"\0\xFF"] {
            let name = sibling(key, "mark");
            assert_ne!(name, key);
            assert_eq!(slot_of(&name), slot_of(key), "{}", key.escape_ascii());
        }
    }
}
