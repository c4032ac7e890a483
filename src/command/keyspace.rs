//! What a command may do with keys. The server hides behind [`Keyspace`]; tests have one of their own.

use super::error::CommandError;
use super::settings::Host;
use super::table::{Command, KeyAccess};
use crate::bloom::{Filter, Memory, Prefetch};

/// The name of a key, and where it stands among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its place among the arguments that follow the command's name, from 0.
    pub position: usize,
}

/// What is under a key: nothing, a filter, or another type of value.
#[derive(Debug)]
pub enum Slot<F> {
    /// No such key.
    Vacant,
    /// A filter.
    Filter(F),
    /// A value of another type.
    WrongType,
}

impl<F> Slot<F> {
    /// The filter, if there is one.
    ///
    /// # Errors
    /// [`CommandError::WrongType`].
    #[inline(always)]
    pub fn present(self) -> Result<Option<F>, CommandError> {
        match self {
            Self::Vacant => Ok(None),
            Self::Filter(filter) => Ok(Some(filter)),
            Self::WrongType => Err(CommandError::WrongType),
        }
    }

    /// The filter, which must be there.
    ///
    /// # Errors
    /// [`CommandError::WrongType`] and [`CommandError::NotFound`].
    #[inline(always)]
    pub fn required(self) -> Result<F, CommandError> {
        self.present()?.ok_or(CommandError::NotFound)
    }

    /// Nothing, as a key must be whose filter is to be made.
    ///
    /// # Errors
    /// [`CommandError::WrongType`], and `taken` where there is a filter.
    pub fn vacant(&self, taken: CommandError) -> Result<(), CommandError> {
        match self {
            Self::Vacant => Ok(()),
            Self::Filter(_) => Err(taken),
            Self::WrongType => Err(CommandError::WrongType),
        }
    }
}

/// A string under a key, which a client's filter is taken over from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringSlot<'s> {
    /// No such key.
    Vacant,
    /// A string.
    Bytes(&'s [u8]),
    /// A value of another type.
    WrongType,
}

/// The keys of the database that a client has selected, and the server around them.
pub trait Keyspace: Host {
    /// A key that is open.
    type Key<'k>: OpenKey
    where
        Self: 'k;

    /// Opens a key until the value is dropped. A key that is open for writing must not be opened again
    /// meanwhile.
    fn open(&self, name: Name<'_>, access: KeyAccess) -> Self::Key<'_>;

    /// Whether the client may read a key, which is not open, beside the first one, `first`: the server knows of no
    /// other. To be asked before anything is read.
    ///
    /// # Errors
    /// [`CommandError::SourceDenied`], [`CommandError::SourceSlot`] and [`CommandError::SourceMoving`].
    fn may_read(&self, source: Name<'_>, first: Name<'_>) -> Result<(), CommandError>;

    /// Returns whether a key that was not found, read beside `first`, may be on another node: that of the slot's other side, while the
    /// slot migrates. No key is open.
    fn may_be_migrating(&self, key: &[u8], first: Name<'_>) -> bool;

    /// Shows `read` the string under a key, which is not open.
    fn with_string<T>(&self, name: Name<'_>, read: impl FnOnce(StringSlot<'_>) -> T) -> T;

    /// A field of the hash under a key, if there is one and the client may read it.
    fn field(&self, key: &[u8], field: &str) -> Option<Vec<u8>>;

    /// How to ask for memory ahead of its use.
    fn prefetch(&self) -> impl Prefetch;

    /// What is known of memory that was never written to.
    fn memory(&self) -> impl Memory;

    /// A command of a primary or of an append-only file failed, and this server lacks what it stood for. No
    /// server goes on from here.
    fn lost(&self, command: Command, error: &CommandError);
}

/// A key as long as it is open.
pub trait OpenKey {
    /// Returns what the key holds. The time of a sliding window is set ([`Filter::set_time`]): to that of the command, or, where
    /// the key is open for writing and the command is replicated, to the newest generation. Of a filter under a key that was
    /// opened for reading nothing may be changed but what is kept only in memory.
    fn slot(&mut self) -> Slot<&mut Filter>;

    /// Bytes that the allocator gave for the filter that [`slot`](Self::slot) has shown. O(layers).
    fn allocated_bytes(&mut self) -> u64;

    /// Takes note that the filter has changed: by so many items, or by other things than items. Returns how many layers it has
    /// gained. Then layers whose items have all expired are taken out ([`Filter::take_expired`]) and freed, in the background
    /// where that takes long.
    fn changed(&mut self, items_added: u64) -> u32;

    /// Takes note that the filter, which had so many items and so much capacity before, has changed otherwise: items were deleted,
    /// or other filters merged into it.
    fn altered(&mut self, items_before: u64, capacity_before_items: u64);

    /// Puts a filter under the key, in place of what is there.
    ///
    /// # Errors
    /// [`CommandError::Internal`] where the server does not take it; the key is then as it was.
    fn publish(&mut self, filter: Box<Filter>) -> Result<(), CommandError>;

    /// Puts another filter of the same kind in place of the one that the key was found to hold; the key
    /// keeps its time to live. What was there is freed, in the background where that takes long.
    fn replace(&mut self, filter: Filter);

    /// Gives the key, which holds a filter, a moment to expire at, in milliseconds of UNIX time.
    fn expire_at(&mut self, at_ms: u64);
}
