//! Three string hashes in the arithmetic of 64-bit PHP 7 and later.
//!
//! PHP's integers do not wrap: an operation that overflows goes on in doubles, and the assignment back to an integer
//! takes the truncated double modulo 2^64. Low bits are lost on the way, so the results differ from those of the same
//! formulas in any fixed number of bits. Validated against recordings of PHP 8.2 (tests/schemes.rs).

/// BKDRHash: h = h * 131 + c, from 0.
pub(super) fn bkdr(item: &[u8]) -> u32 {
    reduced(item.iter().fold(0, |hash, byte| Number::Int(hash).mul(131).add(i64::from(*byte)).to_int()))
}

/// JSHash: h ^= (h << 5) + c + (h >> 2), from 1315423911.
pub(super) fn js(item: &[u8]) -> u32 {
    let step =
        |hash: i64, byte: &u8| hash ^ Number::Int(hash << 5).add(i64::from(*byte)).add(hash >> 2).to_int();
    reduced(item.iter().fold(1_315_423_911, step))
}

/// SDBMHash: h = c + (h << 6) + (h << 16) - h, from 0.
pub(super) fn sdbm(item: &[u8]) -> u32 {
    let step = |hash: i64, byte: &u8| {
        Number::Int(i64::from(*byte)).add(hash << 6).add(hash << 16).sub(hash).to_int()
    };
    reduced(item.iter().fold(0, step))
}

/// `(hash % 0xFFFFFFFF) & 0xFFFFFFFF`, the remainder having the sign of the hash.
fn reduced(hash: i64) -> u32 {
    ((hash % 0xFFFF_FFFF).cast_unsigned() & 0xFFFF_FFFF) as u32
}

/// A number in the middle of an expression.
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

    /// Exact as long as the result is an integer; a double from the first overflow to the end of the expression.
    fn apply(self, right: i64, exact: fn(i64, i64) -> Option<i64>, inexact: fn(f64, f64) -> f64) -> Self {
        match self {
            Self::Int(left) => {
                exact(left, right).map_or_else(|| Self::Float(inexact(left as f64, right as f64)), Self::Int)
            }
            Self::Float(left) => Self::Float(inexact(left, right as f64)),
        }
    }

    /// The assignment to an integer: truncated toward zero, modulo 2^64.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no expression here leaves 2^72, so 128 bits hold the double; dropping the high half is the modulo"
    )]
    fn to_int(self) -> i64 {
        match self {
            Self::Int(int) => int,
            Self::Float(float) => float as i128 as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_goes_through_a_double() {
        // 2^62 * 131 is a double that is exact; adding 1 to it is lost.
        assert_eq!(Number::Int(1 << 62).mul(131).add(1).to_int(), 131i64 << 62);
        assert_eq!(Number::Int(i64::MAX).add(1).to_int(), i64::MIN);
        assert_eq!(Number::Int(-3).sub(4).to_int(), -7);
        assert_eq!((reduced(-1), reduced(0xFFFF_FFFF), reduced(0x1_0000_0000)), (0xFFFF_FFFF, 0, 1));
    }
}
