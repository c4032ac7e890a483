//! The parameters of cuckoo filters, and the one check of them.

/// Most arrays of a filter.
pub const ARRAYS_MAX: usize = 65_535;
/// Most buckets of an array, as in RedisBloom.
const BUCKETS_MAX: u64 = (1 << 56) - 1;
/// Largest expansion.
const EXPANSION_MAX: u16 = 32_768;

/// The parameters of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooParameters {
    /// The buckets of the first array, at least 1.
    pub buckets: u64,
    /// Slots of a bucket, 1 to 255.
    pub bucket_size: u8,
    /// Most fingerprints that an add moves; 0 in filters of RedisBloom that were reserved with 65536.
    pub max_iterations: u16,
    /// The factor from the buckets of one array to those of the next; 0 for a filter of fixed size.
    pub expansion: u16,
}

impl CuckooParameters {
    /// Returns the parameters of CF.RESERVE. The buckets and the expansion become powers of two.
    #[must_use]
    pub fn reserved(capacity_items: u64, bucket_size: u8, max_iterations: u16, expansion: u16) -> Self {
        let buckets = (capacity_items / u64::from(bucket_size.max(1))).max(1);
        Self {
            buckets: buckets.checked_next_power_of_two().unwrap_or(BUCKETS_MAX),
            bucket_size: bucket_size.max(1),
            max_iterations,
            expansion: if expansion == 0 {
                0
            } else {
                expansion.checked_next_power_of_two().unwrap_or(EXPANSION_MAX)
            },
        }
    }

    /// Checks the parameters of a filter of so many arrays, from wherever it comes.
    ///
    /// # Errors
    /// The name of what is out of range.
    pub fn check(&self, arrays: usize) -> Result<(), &'static str> {
        if self.bucket_size == 0 {
            Err("bucket size")
        } else if !(1..=BUCKETS_MAX).contains(&self.buckets) {
            Err("buckets")
        } else if self.expansion > EXPANSION_MAX {
            Err("expansion")
        } else if !(1..=ARRAYS_MAX).contains(&arrays) {
            Err("filters")
        } else {
            Ok(())
        }
    }

    /// Checks the parameters of a filter of so many arrays that the header of a dump describes. RedisBloom refuses headers
    /// with values that it accepts in snapshots.
    ///
    /// # Errors
    /// The name of what is out of range.
    pub fn check_header(&self, arrays: usize) -> Result<(), &'static str> {
        self.check(arrays)?;
        if !self.buckets.is_power_of_two() {
            Err("buckets")
        } else if self.max_iterations == 0 {
            Err("maximum of iterations")
        } else if self.expansion == 0 && arrays > 1 {
            Err("expansion")
        } else {
            Ok(())
        }
    }

    /// Returns the buckets of array `index`; `None` if it would have too many.
    pub(super) fn buckets_of(&self, index: usize) -> Option<u64> {
        let factor = u64::from(self.expansion).checked_pow(u32::try_from(index).ok()?)?;
        self.buckets.checked_mul(factor).filter(|buckets| (1..=BUCKETS_MAX).contains(buckets))
    }
}
