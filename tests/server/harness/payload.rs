//! The trailer of a DUMP payload: two bytes of RDB version, then the CRC64 of all before it.

/// Length of the checksum at the end of a payload, in bytes.
const CRC_BYTES: usize = 8;

/// Returns the CRC-64 as the servers compute it (polynomial 0xad93d23594c935a9, reflected, no initial or final
/// inversion), bit by bit, because the payloads of the tests are small.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { REFLECTED } else { 0 })
    })
}

/// Replaces the checksum of a changed payload with the correct one, as an attacker would.
pub(crate) fn reseal(payload: &mut [u8]) {
    let at = payload.len() - CRC_BYTES;
    let crc = crc64(&payload[..at]);
    payload[at..].copy_from_slice(&crc.to_le_bytes());
}
