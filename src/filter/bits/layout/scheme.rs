//! The layouts of clients' schemes.

use super::prime::Modulus;
use super::probing::{Position, Positions, Probing};
use crate::hash::scheme::{PHP_UNIT_BITS, Scheme, SchemeError, SchemeParameters};
use crate::hash::scheme_hash::SchemeHash;

/// The layout of a client's filter, with checked parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeLayout {
    parameters: SchemeParameters,
    modulus: Modulus,
}

impl SchemeLayout {
    /// Returns the layout with these parameters.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn new(parameters: SchemeParameters) -> Result<Self, SchemeError> {
        let SchemeParameters { scheme, shift, probes, size_bits, .. } = parameters;
        let max = scheme.max_size_bits();
        let modulus = Modulus::new(size_bits).filter(|modulus| modulus.divisor() <= max);
        let modulus = modulus.ok_or(SchemeError::SizeBits { got: size_bits, max })?;
        if scheme == Scheme::PhpBkdrJsSdbm && !size_bits.is_multiple_of(PHP_UNIT_BITS) {
            return Err(SchemeError::SizeUnit { got: size_bits });
        }
        let (min, max) = scheme.fixed_probes().map_or((1, scheme.max_probes()), |fixed| (fixed, fixed));
        if !(min..=max).contains(&probes) {
            return Err(SchemeError::Probes { got: probes, min, max });
        }
        if shift > scheme.max_shift() {
            return Err(SchemeError::Shift { got: shift, max: scheme.max_shift() });
        }
        Ok(Self { parameters, modulus })
    }

    /// Returns the parameters.
    #[must_use]
    pub const fn parameters(&self) -> SchemeParameters {
        self.parameters
    }

    /// Returns the number of bits that the scheme can set, which is the length of the array: `size_bits`, or less if
    /// the hash has a smaller range or a shift reduces it. At least 1.
    #[must_use]
    pub fn array_bits(&self) -> u64 {
        let SchemeParameters { scheme, shift, size_bits, .. } = self.parameters;
        (size_bits.min(scheme.reach_bits()).saturating_sub(1) >> shift).saturating_add(1)
    }
}

impl Probing<SchemeHash> for SchemeLayout {
    type Line = Position;

    /// The positions are in the order of the client's code.
    #[inline(always)]
    fn first_lines(self, item: SchemeHash, _: u64, left: u32) -> impl Iterator<Item = Position> + Clone {
        let Self { parameters: SchemeParameters { shift, .. }, modulus } = self;
        let mut numbers = item.numbers();
        Positions { left, next: move || modulus.remainder(numbers.next()) >> shift }
    }

    #[inline(always)]
    fn line_count(self) -> u32 {
        self.parameters.probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::ItemEncoding;
    use crate::hash::scheme::SHIFT_MAX;

    fn made(scheme: Scheme, size_bits: u64, probes: u32, shift: u8) -> Result<SchemeLayout, SchemeError> {
        let encoding = ItemEncoding::Raw;
        SchemeLayout::new(SchemeParameters { scheme, encoding, shift, probes, size_bits })
    }

    #[test]
    fn fields_outside_the_range_of_their_scheme_are_refused() {
        for scheme in Scheme::ALL {
            let probes = scheme.fixed_probes().unwrap_or(1);
            let max = scheme.max_size_bits();
            assert!(made(scheme, PHP_UNIT_BITS, probes, 0).is_ok() && made(scheme, max, probes, 0).is_ok());
            assert_eq!(made(scheme, 0, probes, 0), Err(SchemeError::SizeBits { got: 0, max }));
            let got = max + 1;
            assert_eq!(made(scheme, got, probes, 0), Err(SchemeError::SizeBits { got, max }));
            for got in [0, scheme.fixed_probes().unwrap_or(scheme.max_probes()) + 1] {
                let error = made(scheme, PHP_UNIT_BITS, got, 0).unwrap_err();
                assert!(matches!(error, SchemeError::Probes { got: said, .. } if said == got), "{error}");
            }
            let got = scheme.max_shift() + 1;
            let refused = Err(SchemeError::Shift { got, max: got - 1 });
            assert_eq!(made(scheme, PHP_UNIT_BITS, probes, got), refused);
        }
        assert_eq!(made(Scheme::PhpBkdrJsSdbm, 8191, 3, 0), Err(SchemeError::SizeUnit { got: 8191 }));
        assert!(made(Scheme::GuavaMitz64, 1000, 255, SHIFT_MAX).is_ok());
        // These are literal numbers, to check the functions of the scheme against them.
        let probes = |scheme, got| made(scheme, PHP_UNIT_BITS, got, 0).map(|_| ());
        let refused = |got, min, max| Err(SchemeError::Probes { got, min, max });
        for guava in [Scheme::GuavaMitz32, Scheme::GuavaMitz64] {
            assert_eq!((probes(guava, 255), probes(guava, 256)), (Ok(()), refused(256, 1, 255)));
        }
        for (scheme, fixed) in [(Scheme::GoZero, 14), (Scheme::PhpBkdrJsSdbm, 3)] {
            assert_eq!(probes(scheme, fixed), Ok(()));
            assert_eq!(probes(scheme, fixed + 1), refused(fixed + 1, fixed, fixed));
            assert_eq!(probes(scheme, fixed - 1), refused(fixed - 1, fixed, fixed));
        }
    }

    #[test]
    fn the_array_ends_at_the_last_possible_position() {
        let array_bits =
            |scheme, size_bits, probes, shift| made(scheme, size_bits, probes, shift).unwrap().array_bits();
        assert_eq!(array_bits(Scheme::GuavaMitz64, 7001, 5, 0), 7001);
        assert_eq!(array_bits(Scheme::GuavaMitz64, 450_000, 5, 6), 7032);
        assert_eq!(array_bits(Scheme::GuavaMitz64, 1, 5, 16), 1);
        assert_eq!(array_bits(Scheme::GuavaMitz32, 1 << 40, 5, 0), 1 << 31);
        assert_eq!(array_bits(Scheme::Fnv32aSalted, 1 << 40, 5, 0), 1 << 32);
        assert_eq!(array_bits(Scheme::PhpBkdrJsSdbm, 1 << 40, 3, 0), 1 << 32);
        assert_eq!(array_bits(Scheme::GoZero, 1 << 40, 14, 0), 1 << 40);
    }
}
