//! Slots of a cluster: where a key lies, and a name for another key in the same slot.

/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// The slot of a key, by the part between the first `{` and the next `}` if there is one.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag_of(key).unwrap_or(key)) % SLOTS
}

fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|byte| *byte == b'{')? + 1;
    let rest = key.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'}')?;
    rest.get(..end).filter(|tag| !tag.is_empty())
}

/// The name of another key in the slot of `key`, with `mark` to tell it from others.
pub(crate) fn sibling(key: &[u8], mark: &str) -> Vec<u8> {
    let behind = |tagged: &[u8]| [tagged, b":", mark.as_bytes()].concat();
    if tag_of(key).is_some() {
        return behind(key);
    }
    let braced = behind(&[b"{", key, b"}"].concat());
    if slot_of(&braced) == slot_of(key) {
        return braced;
    }
    // A brace within the key: another tag of the slot, of which there is one in some ten thousand tries.
    (0u32..)
        .map(|tag| behind(format!("{{{tag}}}").as_bytes()))
        .find(|name| slot_of(name) == slot_of(key))
        .unwrap_or(braced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16::State::<crc16::XMODEM>::calculate(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
    }

    #[test]
    fn a_sibling_is_another_key_of_the_same_slot() {
        for key in [&b"plain"[..], b"", b"{tag}x", b"x{tag}", b"a}b", b"a{b", b"{}", b"{}{a}", b"\0\xFF"] {
            let name = sibling(key, "mark");
            assert_ne!(name, key);
            assert_eq!(slot_of(&name), slot_of(key), "{}", key.escape_ascii());
        }
    }
}
