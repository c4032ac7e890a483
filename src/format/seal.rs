//! What ends every piece of a dump of ours: a mark, and a check of the whole.

use super::arrays::{Array, Chunk};
use super::record::DecodeError;
use crate::bloom::{ItemHash, Origin, OutOfMemory, StateMark, hash128};

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
pub(super) struct Sealed<'d> {
    pub(super) bytes: &'d [u8],
    pub(super) origin: Origin,
}

impl<'d> Sealed<'d> {
    /// Opens a header of either form.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] when it is torn, altered, or none of ours.
    pub(super) fn open(data: &'d [u8]) -> Result<Self, DecodeError> {
        let open = |form: Form| form.open(data, &Place::Header);
        if let Some((bytes, mark)) = open(Form::Marked) {
            // Pieces that were asked for without a header have no mark: no header goes with them.
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
    /// It is a part of an array.
    Chunk {
        /// Where it begins in the dump.
        position: u64,
        /// Of its layer, as the next two. All three are 0 where the position tells the layer from every other that the
        /// filter ever had: the layer may be gone where the chunk is loaded.
        size_bits: u64,
        capacity_items: u64,
        probes: u32,
    },
}

impl Place {
    /// Returns the place of a chunk of `array` that begins at `position` of a dump.
    pub(super) const fn chunk(array: &Array<'_>, position: u64) -> Self {
        let Array { size_bits, capacity_items, probes, address, .. } = *array;
        match address {
            None => Self::Chunk { position, size_bits, capacity_items, probes },
            Some(_) => Self::Chunk { position, size_bits: 0, capacity_items: 0, probes: 0 },
        }
    }

    /// The check of `bytes` at this place: the digest of their digest, of what tells the place from others,
    /// and of the mark if there is one.
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
    /// Returns a header with its seal.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn header(&mut self, header: &[u8], mark: StateMark) -> Result<&[u8], OutOfMemory> {
        self.seal([header, &[]], |_| {}, &Place::Header, mark)
    }

    /// Returns a chunk with its seal. `cut` may change the payload first.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub(super) fn chunk(
        &mut self,
        chunk: &Chunk<'_>,
        cut: impl FnOnce(&mut [u8]),
        mark: StateMark,
    ) -> Result<&[u8], OutOfMemory> {
        let place = Place::chunk(&chunk.array, chunk.position);
        self.seal([chunk.segment.cells, chunk.segment.stamps], cut, &place, mark)
    }

    fn seal(
        &mut self,
        payload: [&[u8]; 2],
        cut: impl FnOnce(&mut [u8]),
        place: &Place,
        mark: StateMark,
    ) -> Result<&[u8], OutOfMemory> {
        let Self(piece) = self;
        piece.clear();
        let payload_bytes = payload.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
        let size_bytes = payload_bytes.saturating_add(Form::Marked.seal_bytes());
        piece.try_reserve_exact(size_bytes).map_err(|_| OutOfMemory)?;
        payload.iter().for_each(|part| piece.extend_from_slice(part));
        cut(piece);
        let check = place.check(piece, Some(mark));
        piece.extend_from_slice(&mark.to_le_bytes());
        piece.extend_from_slice(&check);
        Ok(piece)
    }

    /// The last piece.
    pub(super) fn into_piece(self) -> Vec<u8> {
        self.0
    }
}
