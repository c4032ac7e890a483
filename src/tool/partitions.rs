//! One filter as several, over a whole cluster: which of them an item is in, and how large they are. docs/cluster.md says
//! the rule, which every client follows.

use super::failure::Failure;

/// Most partitions: as many as a cluster has slots.
const PARTITIONS_MAX: u32 = 16_384;

/// The key of a partition.
pub(crate) fn key(name: &str, number: u32) -> String {
    format!("{name}:{{{number}}}")
}

/// The keys of all partitions in order.
///
/// # Errors
/// Where the braces of the name, and not those of the number, would decide the slot.
pub(crate) fn keys(name: &str, count: u32) -> Result<Vec<Vec<u8>>, Failure> {
    if name.contains('{') {
        return Err(Failure::usage("with a { in the key all partitions would be in one slot"));
    }
    Ok((0..count).map(|number| key(name, number).into_bytes()).collect())
}

/// The name and the number that a key is the partition of, if it looks like one.
pub(crate) fn of_key(key: &str) -> Option<(&str, u32)> {
    let (name, number) = key.strip_suffix('}')?.rsplit_once(":{")?;
    let parsed: u32 = number.parse().ok().filter(|number| *number < PARTITIONS_MAX)?;
    // 07 and +7 are other keys.
    (parsed.to_string() == number && !name.contains('{')).then_some((name, parsed))
}

/// The partition of an item.
#[inline]
pub(crate) fn partition_of(item: &[u8], count: u32) -> usize {
    (crc32fast::hash(item) % count.max(1)) as usize
}

/// What each is reserved for: its share and four standard deviations, `share + 4 sqrt(share)` rounded up, so that none
/// grows. At least 1.
pub(crate) fn capacity_items(all_items: u64, count: u32) -> u64 {
    let (items, count) = (u128::from(all_items), u128::from(count.max(1)));
    // 4 sqrt(items / count) is sqrt(16 items count) / count.
    let square = 16 * items * count;
    let root = square.isqrt();
    let root = if root * root == square { root } else { root + 1 };
    u64::try_from((items + root).div_ceil(count)).unwrap_or(u64::MAX).max(1)
}

/// A number of partitions.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=PARTITIONS_MAX).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {PARTITIONS_MAX} is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_where_every_client_looks_for_them() {
        // CRC-32 of zlib: its check value.
        assert_eq!(partition_of(b"123456789", u32::MAX), 0xCBF4_3926);
        assert_eq!(partition_of(b"123456789", 24), 0xCBF4_3926 % 24);
        assert_eq!(partition_of(b"", 24), 0);
        assert_eq!(key("seen", 17), "seen:{17}");
        assert_eq!(of_key("a:b:{17}"), Some(("a:b", 17)));
        for other in
            ["seen", "seen:{}", "seen:{07}", "seen:{+7}", "seen:{16384}", "seen{7}", "{a}:{7}", "seen:{7}x"]
        {
            assert_eq!(of_key(other), None, "{other}");
        }
    }

    #[test]
    fn each_is_reserved_for_its_share_and_four_deviations() {
        // The first as docs/cluster.md has it; then whole roots, and the ends.
        assert_eq!(capacity_items(2_000_000, 24), 84_489);
        assert_eq!(capacity_items(100, 1), 140);
        assert_eq!(capacity_items(400, 4), 140);
        assert_eq!(capacity_items(0, 24), 1);
        assert_eq!(capacity_items(1, 24), 1);
        assert_eq!(capacity_items(u64::MAX, 1), u64::MAX);
        for (items, count) in [(1_000_000u64, 24), (7, 3), (12_345_678, 64), (99, 100)] {
            let share = items as f64 / f64::from(count);
            let expected = (share + 4.0 * share.sqrt()).ceil();
            assert_eq!(capacity_items(items, count) as f64, expected, "{items} {count}");
        }
    }

    #[test]
    fn numbers_of_partitions_have_a_range() {
        assert_eq!((count("1"), count("16384")), (Ok(1), Ok(16_384)));
        assert!(["0", "16385", "-1", "many", ""].iter().all(|text| count(text).is_err()));
        assert!(keys("a{b}", 2).is_err());
    }
}
