//! Three string hashes in the arithmetic of 64-bit PHP 7 and later.
//!
//! PHP's integers do not wrap. An operation that overflows continues in doubles, and the assignment back to an
//! integer takes the truncated double modulo 2^64. Low bits are lost, so the results differ from those of the same
//! formulas in any fixed number of bits. Tests compare them with recordings of PHP 8.2 (tests/pure/schemes).

/// The three hashes of the bytes so far. Each is a chain of dependent operations, so they are computed side by side.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhpHashes {
    bkdr: i64,
    js: i64,
    sdbm: i64,
}

impl PhpHashes {
    /// The hashes of no bytes.
    pub(super) const EMPTY: Self = Self { bkdr: 0, js: 1_315_423_911, sdbm: 0 };

    /// Adds the next bytes. O(bytes).
    pub(super) fn update(self, bytes: &[u8]) -> Self {
        let Self { mut bkdr, mut js, mut sdbm } = self;
        for byte in bytes {
            let byte = i64::from(*byte);
            bkdr = bkdr_step(bkdr, byte);
            js = js_step(js, byte);
            sdbm = sdbm_step(sdbm, byte);
        }
        Self { bkdr, js, sdbm }
    }

    /// Returns BKDRHash, JSHash and SDBMHash of all bytes so far.
    pub(super) fn finish(self) -> [u32; 3] {
        [self.bkdr, self.js, self.sdbm].map(reduced)
    }
}

/// Returns the next state of BKDRHash: h = h * 131 + c, from 0.
fn bkdr_step(hash: i64, byte: i64) -> i64 {
    let (product, is_beyond) = hash.overflowing_mul(131);
    // The sum is then a double of at least 2^63. The byte is less than half a unit of it, so it is lost. The product,
    // a multiple of 2^18 below 2^71, fits the 53 digits of a double, so nothing else is lost. Most steps take this
    // path.
    if is_beyond && hash.trailing_zeros() >= 18 {
        return product;
    }
    Number::Int(hash).mul(131).add(byte).to_int()
}

/// Returns the next state of JSHash: h ^= (h << 5) + c + (h >> 2), from 1315423911.
fn js_step(hash: i64, byte: i64) -> i64 {
    hash ^ Number::Int(hash << 5).add(byte).add(hash >> 2).to_int()
}

/// Returns the next state of SDBMHash: h = c + (h << 6) + (h << 16) - h, from 0.
fn sdbm_step(hash: i64, byte: i64) -> i64 {
    Number::Int(byte).add(hash << 6).add(hash << 16).sub(hash).to_int()
}

/// Returns `(hash % 0xFFFFFFFF) & 0xFFFFFFFF`, the remainder having the sign of the hash.
fn reduced(hash: i64) -> u32 {
    ((hash % 0xFFFF_FFFF).cast_unsigned() & 0xFFFF_FFFF) as u32
}

/// A number in a PHP expression.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    fn add(self, right: i64) -> Self {
        self.apply(right, i64::checked_add, |left, right| left + right)
    }

    fn sub(self, right: i64) -> Self {
        self.apply(right, i64::checked_sub, |left, right| left - right)
    }

    fn mul(self, right: i64) -> Self {
        self.apply(right, i64::checked_mul, |left, right| left * right)
    }

    /// Returns the result: an integer while it is exact, and a double from the first overflow to the end of the
    /// expression.
    #[inline(always)]
    fn apply(self, right: i64, exact: fn(i64, i64) -> Option<i64>, inexact: fn(f64, f64) -> f64) -> Self {
        match self {
            Self::Int(left) => {
                exact(left, right).map_or_else(|| Self::Float(inexact(left as f64, right as f64)), Self::Int)
            }
            Self::Float(left) => Self::Float(inexact(left, right as f64)),
        }
    }

    /// Returns the number after an assignment to an integer: truncated toward zero, modulo 2^64.
    fn to_int(self) -> i64 {
        match self {
            Self::Int(int) => int,
            Self::Float(float) => truncated(float),
        }
    }
}

/// Returns the double without its fraction, modulo 2^64. It must be at most 2^72, as in all expressions here.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a double below 2^52 loses its fraction, which is wanted"
)]
fn truncated(float: f64) -> i64 {
    // A double is a fraction of 53 bits times a power of two (IEEE 754): from 2^52 on that is a left shift.
    let bits = float.to_bits();
    let Some(exponent) = (bits >> 52 & 0x7FF).checked_sub(1075) else { return float as i64 };
    let fraction = (bits & ((1 << 52) - 1) | 1 << 52).cast_signed() << (exponent % 64);
    // Negates without a branch, which would be mispredicted half the time: minus one has all bits set.
    let sign = bits.cast_signed() >> 63;
    (fraction ^ sign).wrapping_sub(sign)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_overflow_gives_a_double() {
        // 2^62 * 131 is an exact double. Adding 1 to it has no effect.
        assert_eq!(Number::Int(1 << 62).mul(131).add(1).to_int(), 131i64 << 62);
        assert_eq!(Number::Int(i64::MAX).add(1).to_int(), i64::MIN);
        assert_eq!(Number::Int(-3).sub(4).to_int(), -7);
        assert_eq!((reduced(-1), reduced(0xFFFF_FFFF), reduced(0x1_0000_0000)), (0xFFFF_FFFF, 0, 1));
    }

    #[expect(clippy::cast_possible_truncation, reason = "the definition, of doubles below 2^72")]
    fn defined(float: f64) -> i64 {
        float as i128 as i64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100_000))]

        #[test]
        fn doubles_become_integers_as_in_php(
            number in any::<i128>(), shift in 56u32..128, divisor in 1i64..9,
        ) {
            let float = (number >> shift) as f64 / divisor as f64;
            prop_assert_eq!(truncated(float), defined(float), "{}", float);
        }

        #[test]
        fn the_fast_product_equals_the_slow_one(
            hash in any::<i64>(), clear_bits in 0u32..40, byte in 0i64..256,
        ) {
            let hash = hash >> clear_bits << clear_bits;
            for hash in [hash, hash.wrapping_shl(clear_bits)] {
                prop_assert_eq!(bkdr_step(hash, byte), Number::Int(hash).mul(131).add(byte).to_int());
            }
        }
    }
}
