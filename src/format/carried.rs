//! Values of RedisBloom's other types: Count-Min sketches, Top-K lists and t-digests. No command works on them. A snapshot
//! with them loads, they are kept as they were read, and they are written back, until their owner moves or deletes them.
//!
//! A value is kept as the payload of DUMP has it: for each field an opcode and the field, as in the server's snapshots. The
//! fields were read from files of RedisBloom; docs/formats.md lists them.

use super::payload::{EncodedFields, Keeping};
use super::stream::{DecodeError, Sink, Source};
use everbloom_filter::{BlockMover, BlockVisitor, Blocks, OutOfMemory};

/// A type of RedisBloom that is only carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedType {
    /// Count-Min sketches.
    CountMin,
    /// Top-K lists.
    TopK,
    /// t-digests.
    TDigest,
}

impl CarriedType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::CountMin, Self::TopK, Self::TDigest];

    /// The only encoding version of all types.
    pub const ENCODING_VERSION: i32 = 0;

    /// Returns the name of the type in a server: nine characters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CountMin => "CMSk-TYPE",
            Self::TopK => "TopK-TYPE",
            Self::TDigest => "TDIS-TYPE",
        }
    }
}

/// A value of one of the types.
#[derive(Debug)]
pub struct Carried {
    carried_type: CarriedType,
    fields: EncodedFields,
}

impl Carried {
    /// Reads a value. O(bytes).
    ///
    /// # Errors
    /// The first wrong field, or [`DecodeError::OutOfMemory`].
    pub fn load(
        carried_type: CarriedType,
        encoding_version: i32,
        source: &mut impl Source,
    ) -> Result<Self, DecodeError> {
        if encoding_version != CarriedType::ENCODING_VERSION {
            return Err(DecodeError::unsupported("encoding version", encoding_version.unsigned_abs()));
        }
        let mut fields = Keeping::new(source);
        match carried_type {
            CarriedType::CountMin => count_min(&mut fields)?,
            CarriedType::TopK => top_k(&mut fields)?,
            CarriedType::TDigest => t_digest(&mut fields)?,
        }
        Ok(Self { carried_type, fields: fields.fields.exact()? })
    }

    /// Returns the type.
    #[must_use]
    pub const fn carried_type(&self) -> CarriedType {
        self.carried_type
    }

    /// Writes the value, with the fields that were read. O(bytes).
    pub fn save(&self, sink: &mut impl Sink) {
        self.fields.save(sink);
    }

    /// Returns the payload with which RESTORE creates the value. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn payload(&self) -> Result<Vec<u8>, OutOfMemory> {
        self.fields.payload(self.carried_type.name(), CarriedType::ENCODING_VERSION)
    }

    /// Makes a copy with its own memory. O(bytes).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_clone(&self) -> Result<Self, OutOfMemory> {
        Ok(Self { carried_type: self.carried_type, fields: self.fields.exact()? })
    }

    /// Returns the fields as they are stored.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.fields.block()
    }
}

impl Blocks for Carried {
    fn visit_blocks(&self, visitor: &mut impl BlockVisitor) {
        visitor.visit(self.fields.block());
    }

    fn block_count(&self) -> usize {
        1
    }

    fn move_structs(&mut self, _mover: &impl BlockMover) {}

    fn move_block(&mut self, _number: usize, mover: &impl BlockMover) {
        mover.move_vec(self.fields.block_mut());
    }
}

/// Reads width, depth, the sum of all counts, and the counters, of four bytes each.
fn count_min(fields: &mut Keeping<'_, impl Source>) -> Result<(), DecodeError> {
    let (width, depth) = (fields.positive("width")?, fields.positive("depth")?);
    fields.unsigned()?;
    fields.string(Some(product(&[width, depth, 4])?))
}

/// Reads k, width, depth, decay, the counters, of eight bytes each, and the heap, whose entries of 24 bytes have
/// addresses of the server that wrote them. Then reads the item of each entry.
fn top_k(fields: &mut Keeping<'_, impl Source>) -> Result<(), DecodeError> {
    let items = fields.positive("k")?;
    let (width, depth) = (fields.positive("width")?, fields.positive("depth")?);
    fields.double()?;
    fields.string(Some(product(&[width, depth, 8])?))?;
    fields.string(Some(product(&[items, 24])?))?;
    (0..items).try_for_each(|_| fields.string(None))
}

/// Reads the compression, the smallest and the largest value, the capacity, the merged and unmerged nodes, the number
/// of compressions and two sums of weights. Then reads the means of the merged nodes, and their weights.
fn t_digest(fields: &mut Keeping<'_, impl Source>) -> Result<(), DecodeError> {
    (0..3).try_for_each(|_| fields.double())?;
    let (capacity, merged) = (fields.unsigned()?, fields.unsigned()?);
    if merged > capacity {
        return Err(DecodeError::Invalid("merged nodes"));
    }
    fields.unsigned()?;
    fields.unsigned()?;
    fields.double()?;
    fields.double()?;
    (0..merged).try_for_each(|_| fields.double())?;
    (0..merged).try_for_each(|_| fields.double())
}

/// Returns the product of numbers that bytes of a file give.
fn product(numbers: &[u64]) -> Result<u64, DecodeError> {
    let product = numbers.iter().try_fold(1u64, |product, number| product.checked_mul(*number));
    product.ok_or(DecodeError::Invalid("size"))
}
