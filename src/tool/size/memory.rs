//! What layers take together.

use everbloom::LayerSize;

/// All layers of a filter together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) bits: u64,
    pub(super) allocated_bytes: u64,
    pub(super) probes: u64,
    pub(super) lines: u64,
}

impl Sum {
    pub(super) fn of(layers: &[LayerSize]) -> Self {
        layers.iter().fold(Self::default(), |sum, layer| Self {
            bits: sum.bits.saturating_add(layer.size_bits),
            allocated_bytes: sum.allocated_bytes.saturating_add(allocated_bytes(layer.size_bits.div_ceil(8))),
            probes: sum.probes.saturating_add(layer.probes.into()),
            lines: sum.lines.saturating_add(layer.lines.into()),
        })
    }
}

/// What jemalloc 5 gives for so many bytes: sizes come in steps of 16 bytes up to 128, from there on four to each
/// doubling.
fn allocated_bytes(size: u64) -> u64 {
    match size {
        0 => 0,
        1..=8 => 8,
        9..=128 => size.next_multiple_of(16),
        _ => {
            let step = 1 << (size - 1).ilog2().saturating_sub(2);
            size.checked_next_multiple_of(step).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::allocated_bytes;

    #[test]
    fn sizes_are_those_of_jemalloc() {
        for (size, allocated) in [
            (1, 8),
            (9, 16),
            (100, 112),
            (128, 128),
            (129, 160),
            (1000, 1024),
            (1025, 1280),
            (14_337, 16_384),
        ] {
            assert_eq!(allocated_bytes(size), allocated, "{size}");
        }
        assert_eq!(allocated_bytes((5 << 20) + 1), 6 << 20);
        assert_eq!(allocated_bytes(u64::MAX), u64::MAX);
    }
}
