//! What ends every piece of a dump of ours: a mark, and a check of the whole.

use super::record::DecodeError;
use crate::bloom::{BitFamily, ItemHash, Layer, Origin, OutOfMemory, Probes, StateMark, hash128};

/// Bytes of the mark.
const MARK_BYTES: usize = 8;
/// Bytes of the check, which is last.
const CHECK_BYTES: usize = 16;

/// How a piece ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With a mark and a check: written since release 0.2.
    Marked,
    /// With a check only: release 0.1.
    Unmarked,
}

impl Form {
    /// Bytes after the payload.
    pub(super) const fn seal_bytes(self) -> usize {
        match self {
            Self::Marked => MARK_BYTES + CHECK_BYTES,
            Self::Unmarked => CHECK_BYTES,
        }
    }

    /// The payload and the mark (0 where there is none) of a piece whose check holds.
    pub(super) fn open<'d>(self, data: &'d [u8], place: &Place) -> Option<(&'d [u8], StateMark)> {
        let (bytes, check) = data.split_last_chunk::<CHECK_BYTES>()?;
        let (payload, mark) = match self {
            Self::Marked => {
                let (payload, mark) = bytes.split_last_chunk::<MARK_BYTES>()?;
                (payload, Some(StateMark::from_le_bytes(*mark)))
            }
            Self::Unmarked => (bytes, None),
        };
        (place.check(payload, mark) == *check).then_some((payload, mark.unwrap_or(0)))
    }
}

/// A header whose check holds, without its seal.
#[derive(Clone, Copy, Debug)]
pub struct Sealed<'d> {
    pub(super) bytes: &'d [u8],
    pub(super) origin: Origin,
}

impl<'d> Sealed<'d> {
    /// Opens a header of either form.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when it is torn, altered, or none of ours.
    pub fn open(data: &'d [u8]) -> Result<Self, DecodeError> {
        let open = |form: Form| form.open(data, &Place::Header);
        if let Some((bytes, mark)) = open(Form::Marked) {
            // What was written without a dump, as an append-only file is, has no mark.
            let origin = if mark == 0 { Origin::NoHeader } else { Origin::Marked(mark) };
            return Ok(Self { bytes, origin });
        }
        let (bytes, _) = open(Form::Unmarked).ok_or(DecodeError::Truncated)?;
        Ok(Self { bytes, origin: Origin::Unmarked })
    }
}

/// Where a piece belongs; part of its check.
pub(super) enum Place {
    /// It is the header.
    Header,
    /// It is a part of a bit array.
    Chunk {
        /// Of its first byte, in all bit arrays laid end to end.
        position: u64,
        /// Of its layer, as the next two.
        size_bits: u64,
        capacity_items: u64,
        probes: u32,
    },
}

impl Place {
    pub(super) fn chunk<F: BitFamily>(layer: &Layer<F::Placement>, position: u64) -> Self {
        Self::Chunk {
            position,
            size_bits: layer.bits().len(),
            capacity_items: layer.capacity_items(),
            probes: layer.placement().probes(),
        }
    }

    /// The check of `bytes` at this place: the digest of their digest, of what tells the place from others, and of the
    /// mark if there is one.
    fn check(&self, bytes: &[u8], mark: Option<StateMark>) -> [u8; CHECK_BYTES] {
        let ItemHash { h1, h2 } = hash128(bytes);
        let [position, size_bits, capacity_items, probes] = match *self {
            Self::Header => [0; 4],
            Self::Chunk { position, size_bits, capacity_items, probes } => {
                [position, size_bits, capacity_items, probes.into()]
            }
        };
        let words = [h1, h2, position, size_bits, capacity_items, probes, mark.unwrap_or(0)];
        let unmarked = words.split_last().map_or(&[][..], |(_, words)| words);
        let digest = hash128(bytemuck::cast_slice(if mark.is_some() { &words } else { unmarked }));
        bytemuck::cast([digest.h1, digest.h2])
    }
}

/// Makes pieces, one after another, in the same memory.
#[derive(Default)]
pub(super) struct Sealer(Vec<u8>);

impl Sealer {
    /// A piece: the payload with its seal.
    ///
    /// # Errors
    /// [`OutOfMemory`] when it cannot be had.
    pub(super) fn seal(
        &mut self,
        payload: &[u8],
        place: &Place,
        mark: StateMark,
    ) -> Result<&[u8], OutOfMemory> {
        let Self(piece) = self;
        piece.clear();
        let size_bytes = payload.len().saturating_add(Form::Marked.seal_bytes());
        piece.try_reserve_exact(size_bytes).map_err(|_| OutOfMemory)?;
        piece.extend_from_slice(payload);
        piece.extend_from_slice(&mark.to_le_bytes());
        piece.extend_from_slice(&place.check(payload, Some(mark)));
        Ok(piece)
    }

    /// The last piece.
    pub(super) fn into_piece(self) -> Vec<u8> {
        self.0
    }
}
