//! The hash in which Redisson keeps the sizes of an `RBloomFilter`, next to its bitmap. With it, BF.IMPORT needs no
//! options.

use everbloom_filter::OutOfMemory;

/// The size, probes and capacity of a Redisson filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedissonConfig {
    /// Field `size`: bits.
    pub size_bits: u64,
    /// Field `hashIterations`: probes per item.
    pub probes: u32,
    /// Field `expectedInsertions`, if it is a number above 0: items.
    pub capacity_items: Option<u64>,
}

impl RedissonConfig {
    /// Reads the fields through `field`, which returns the value of a name.
    /// [`SchemeLayout`](everbloom_filter::bits::layout::SchemeLayout) checks their ranges.
    ///
    /// # Errors
    /// The name of the field that is missing or not a number.
    pub fn read<V: AsRef<[u8]>>(
        mut field: impl FnMut(&'static str) -> Option<V>,
    ) -> Result<Self, &'static str> {
        let size_bits = number(field("size")).ok_or("size")?;
        let probes = number(field("hashIterations"));
        let probes = probes.and_then(|probes| u32::try_from(probes).ok()).ok_or("hashIterations")?;
        let capacity_items = number(field("expectedInsertions")).filter(|items| *items != 0);
        Ok(Self { size_bits, probes, capacity_items })
    }
}

/// Returns the key of the hash that belongs to the bitmap at `key`. Redisson puts the name in braces, which keeps
/// both in one slot, unless the name has braces. O(length).
///
/// # Errors
/// [`OutOfMemory`].
pub fn config_key(key: &[u8]) -> Result<Vec<u8>, OutOfMemory> {
    const SUFFIX: &[u8] = b":config";
    let (open, close): (&[u8], &[u8]) = if key.contains(&b'{') { (b"", b"") } else { (b"{", b"}") };
    let parts = [open, key, close, SUFFIX];
    let mut config_key = Vec::new();
    let length = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
    config_key.try_reserve_exact(length).map_err(|_| OutOfMemory)?;
    parts.iter().for_each(|part| config_key.extend_from_slice(part));
    Ok(config_key)
}

/// Returns a decimal number that has only digits.
fn number(value: Option<impl AsRef<[u8]>>) -> Option<u64> {
    let value = value?;
    let digits = std::str::from_utf8(value.as_ref()).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<RedissonConfig, &'static str> {
        let value = |name| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| *value);
        RedissonConfig::read(value)
    }

    #[test]
    fn fields_are_read_and_the_optional_one_may_be_invalid() {
        let fields = [("size", "7298440"), ("hashIterations", "5"), ("expectedInsertions", "1000000")];
        let config = RedissonConfig { size_bits: 7_298_440, probes: 5, capacity_items: Some(1_000_000) };
        assert_eq!(read(&fields), Ok(config));
        for last in
            [("expectedInsertions", "many"), ("expectedInsertions", "0"), ("falseProbability", "0.03")]
        {
            let config = RedissonConfig { capacity_items: None, ..config };
            assert_eq!(read(&[fields[0], fields[1], last]), Ok(config));
        }
        for size in ["", "-1", "+1", " 1", "1.0", "1e3", "18446744073709551616"] {
            assert_eq!(read(&[("size", size), fields[1]]), Err("size"), "{size}");
        }
        assert_eq!(read(&fields[..1]), Err("hashIterations"));
        assert_eq!(read(&[fields[0], ("hashIterations", "4294967296")]), Err("hashIterations"));
    }

    #[test]
    fn the_settings_are_in_the_slot_of_the_bitmap() {
        assert_eq!(config_key(b"users").unwrap(), b"{users}:config");
        assert_eq!(config_key(b"{app}users").unwrap(), b"{app}users:config");
    }
}
