//! LZF: runs of literal bytes, and references to what came before.

/// Bytes that one byte of input can become, at most: a reference of three bytes to 264.
const EXPANSION_MAX: u64 = 88;

/// What was compressed, if it is `length` bytes; nothing for what is torn or lies about its length.
pub(crate) fn decompress(input: &[u8], length: u64) -> Option<Vec<u8>> {
    if length > (input.len() as u64).saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let mut output = Vec::new();
    output.try_reserve_exact(length).ok()?;
    let mut input = input.iter().map(|byte| usize::from(*byte));
    while let Some(control) = input.next() {
        if control < 32 {
            for _ in 0..=control {
                output.push(u8::try_from(input.next()?).ok()?);
            }
        } else {
            let run = control >> 5;
            let run = if run == 7 { input.next()? + 9 } else { run + 2 };
            let back = ((control & 31) << 8 | input.next()?) + 1;
            let from = output.len().checked_sub(back)?;
            for index in from..from + run {
                output.push(*output.get(index)?);
            }
        }
        if output.len() > length {
            return None;
        }
    }
    (output.len() == length).then_some(output)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn runs_and_references() {
        assert_eq!(decompress(&[0, b'a', 0xE0, 0, 0], 10).unwrap(), b"aaaaaaaaaa");
        assert_eq!(decompress(&[2, b'a', b'b', b'c', 0x20, 2], 6).unwrap(), b"abcabc");
        for (input, length) in
            [(&[0xE0, 0, 0][..], 9), (&[5, 1], 6), (&[0, 1], 2), (&[0, 1], u64::MAX), (&[0x20], 3)]
        {
            assert_eq!(decompress(input, length), None, "{input:?}");
        }
    }
}
