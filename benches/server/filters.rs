//! Makes half-full filters quickly, without adding hundreds of millions of items.

use std::path::Path;
use std::thread;
use std::time::Duration;

use everbloom::bloom::{Filter, FilterSpec, Growth, Hash, Policy, Promise};
use everbloom::format::filter::chunk;

use super::client::{Client, Requests, Value, encode_argument, encode_head, pipeline};
use super::failure::Failure;
use super::items;
use super::process::{Server, memory_bytes};
use super::series::{Scope, Series, Size};

/// Set bits, of every 256, in a filter that holds half its capacity: 1 - 1 / sqrt(2).
const HALF_FULL_256: u8 = 75;
/// Size of the smallest filters that may be collapsed into large pages.
const LARGE_PAGES_MIN_BYTES: u64 = 4 << 20;
/// Items per command while filters are filled.
const FILL_ITEMS: usize = 1000;

/// Reserves an empty filter that cannot grow.
pub(crate) fn reserve(
    client: &mut Client,
    series: &Series,
    key: &str,
    error_rate: f64,
    capacity_items: u64,
) -> Result<(), Failure> {
    configure(client, series)?;
    client.say(&format!("BF.RESERVE {key} {error_rate} {capacity_items} NONSCALING"))?;
    Ok(())
}

/// Returns a number from BF.INFO of a filter.
pub(crate) fn information(client: &mut Client, key: &str, field: &str) -> Result<i64, Failure> {
    let reply = client.say(&format!("BF.INFO {key} {field}"))?;
    // RedisBloom returns an array with one element, valkey-bloom returns the number itself.
    let value = if let Value::Array(values) = &reply { values.last() } else { Some(&reply) };
    match value {
        Some(Value::Integer(number)) => Ok(*number),
        _ => Err(format!("BF.INFO {field} returns {reply:?}").into()),
    }
}

/// Sets the options with which new filters of the series are created.
pub(crate) fn configure(client: &mut Client, series: &Series) -> Result<(), Failure> {
    for (setting, value) in &series.settings {
        client.say(&format!("CONFIG SET {setting} {value}"))?;
    }
    Ok(())
}

/// Makes a filter of that size: half full, or not reserved and grown to its number of items.
pub(crate) fn make(server: &Server, series: &Series, size: &Size) -> Result<(), Failure> {
    if !series.has_filter() {
        return Ok(());
    }
    let mut client = server.client()?;
    let key = size.key(series);
    if size.is_unreserved() {
        configure(&mut client, series)?;
        if series.scope == Scope::Reserved {
            client.say(&format!("BF.RESERVE {key} {} {}", size.error_rate, size.known))?;
        }
        return add(server.socket(), &key, 0, size.known).map(drop);
    }
    reserve(&mut client, series, &key, size.error_rate, size.capacity_items())?;
    half_fill(&mut client, &key, size)?;
    add(server.socket(), &key, 0, size.known)?;
    settle(server, size);
    Ok(())
}

/// Waits until the module has collapsed the filter into large pages in the background. In practice a filter is filled
/// once and then queried for a long time, so the measurements are those of the final state.
fn settle(server: &Server, size: &Size) {
    const PERIOD: Duration = Duration::from_secs(2);
    const PERIODS_MAX: u32 = 60;
    if size.bytes < LARGE_PAGES_MIN_BYTES {
        return;
    }
    let collapsed = || memory_bytes(server.process(), "AnonHugePages");
    let mut before = collapsed();
    for _ in 0..PERIODS_MAX {
        thread::sleep(PERIOD);
        let now = collapsed();
        if now == before {
            return;
        }
        before = now;
    }
}

/// Sets the bits of an empty filter to those of a half-full one.
fn half_fill(client: &mut Client, key: &str, size: &Size) -> Result<(), Failure> {
    let noise = items::noise(1 << 20, HALF_FULL_256);
    if client.bytes(&["TYPE", key])? == b"everbloom" {
        return load_own(client, key, size, &noise).map(drop);
    }
    // For another module's filter, overwrites the zeros of the bit array in its own dump.
    let mut payload = client.bytes(&["DUMP", key])?;
    overwrite_zeros(&mut payload, &noise)?;
    reseal(&mut payload)?;
    client.call(&[b"RESTORE", key.as_bytes(), b"0", &payload, b"REPLACE"])?;
    Ok(())
}

/// Fills one of our own filters with random bits that differ from those of [`make`]. Returns the bytes of its bits.
pub(crate) fn load_other_half(client: &mut Client, key: &str, size: &Size) -> Result<usize, Failure> {
    let mut noise = items::noise(1 << 20, HALF_FULL_256);
    noise.reverse();
    load_own(client, key, size, &noise)
}

/// Loads one of our own filters with BF.LOADCHUNK, which also sets the item count of a half-full filter. Returns the
/// bytes of its bits.
fn load_own(client: &mut Client, key: &str, size: &Size, noise: &[u8]) -> Result<usize, Failure> {
    let (error_rate, capacity_items) = (size.error_rate, size.capacity_items());
    let policy = Policy::Everbloom(Promise { error_rate, capacity_items, growth: Growth::Fixed });
    let spec = FilterSpec { policy, hash: Hash::Murmur3 };
    let mut filter = Filter::reserve(spec, &u64::MAX).map_err(|error| format!("{error:?}"))?;
    let mut size_bytes = 0;
    for layer in filter.layers_mut() {
        let bytes = usize::try_from(layer.bits().size_bytes())?;
        size_bytes += bytes;
        for offset in (0..bytes).step_by(noise.len()) {
            let part = noise.get(..noise.len().min(bytes - offset)).unwrap_or_default();
            if !layer.bits_mut().add_bytes(offset, part) {
                return Err("the random bits do not fit the chunk".into());
            }
        }
        layer.set_items(capacity_items / 2);
    }
    // A header is refused if the filter exists, and a chunk if it has another dump id than the header.
    client.call(&["DEL", key])?;
    filter.begin_dump(1);
    let mut iterator = 0;
    while let Some(chunk) = chunk(&filter, iterator).map_err(|error| format!("{error:?}"))? {
        iterator = chunk.next_iterator;
        client.call(&[b"BF.LOADCHUNK", key.as_bytes(), iterator.to_string().as_bytes(), &chunk.data])?;
    }
    Ok(size_bytes)
}

/// Fills the longest run of zero bytes in a dump, which is the bit array of the empty filter. Leaves out a few bytes at
/// both ends, which may belong to other fields.
fn overwrite_zeros(payload: &mut [u8], noise: &[u8]) -> Result<(), Failure> {
    const MARGIN: usize = 16;
    let (mut from, mut to, mut start) = (0, 0, 0);
    for (index, byte) in payload.iter().enumerate() {
        if *byte != 0 {
            start = index + 1;
        } else if index - start > to - from {
            (from, to) = (start, index);
        }
    }
    let is_most = to - from > payload.len() / 10 * 9;
    let bits = payload.get_mut(from + MARGIN..to.saturating_sub(MARGIN)).filter(|_| is_most);
    for part in bits.ok_or("the dump of an empty filter is not mostly zeros")?.chunks_mut(noise.len()) {
        part.copy_from_slice(noise.get(..part.len()).unwrap_or_default());
    }
    Ok(())
}

/// Replaces the CRC64 at the end of a payload.
fn reseal(payload: &mut [u8]) -> Result<(), Failure> {
    let (bytes, check) = payload.split_last_chunk_mut::<8>().ok_or("a dump without checksum")?;
    *check = crc64(bytes).to_le_bytes();
    Ok(())
}

/// Returns the CRC-64 of the servers (polynomial 0xad93d23594c935a9, reflected), eight bytes at a time.
fn crc64(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(0, |crc: u64, word| {
        let word = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        word.iter().zip(CRC_TABLES.iter().rev()).fold(0, |crc, (byte, table)| crc ^ entry(table, *byte))
    });
    rest.iter().fold(crc, |crc, byte| {
        let [first, ..] = (crc ^ u64::from(*byte)).to_le_bytes();
        crc >> 8 ^ CRC_TABLES.first().map_or(0, |table| entry(table, first))
    })
}

fn entry(table: &[u64; 256], byte: u8) -> u64 {
    table.get(usize::from(byte)).copied().unwrap_or(0)
}

/// Table `i` contains the CRC of every byte followed by `i` zero bytes.
static CRC_TABLES: std::sync::LazyLock<[[u64; 256]; 8]> = std::sync::LazyLock::new(|| {
    const REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;
    let bit = |crc: u64, _| crc >> 1 ^ if crc & 1 == 1 { REFLECTED } else { 0 };
    let shifted = |crc| (0..8).fold(crc, bit);
    std::array::from_fn(|zeros| {
        std::array::from_fn(|byte| (0..=zeros).fold(byte as u64, |crc, _| shifted(crc)))
    })
});

/// Adds the items with these numbers, many per command. Returns the number of new ones.
pub(crate) fn add(socket: &Path, key: &str, from: u64, count: u64) -> Result<i64, Failure> {
    send(socket, "BF.MADD", key, from, count)
}

/// Looks up the items with these numbers, many per command. Returns the number of those found.
pub(crate) fn check(socket: &Path, key: &str, from: u64, count: u64) -> Result<i64, Failure> {
    send(socket, "BF.MEXISTS", key, from, count)
}

fn send(socket: &Path, command: &str, key: &str, from: u64, count: u64) -> Result<i64, Failure> {
    const ITEMS_AT_ONCE: u64 = 500_000;
    let mut sum = 0;
    for start in (from..from + count).step_by(usize::try_from(ITEMS_AT_ONCE)?) {
        let end = (start + ITEMS_AT_ONCE).min(from + count);
        let requests = requests(command, key, FILL_ITEMS, start..end);
        sum += pipeline(socket, &requests)?.sum;
    }
    Ok(sum)
}

/// Returns commands with `per_command` items each; the last may have fewer.
pub(crate) fn requests(
    command: &str,
    key: &str,
    per_command: usize,
    numbers: impl Iterator<Item = u64>,
) -> Requests {
    let numbers: Vec<u64> = numbers.collect();
    let mut requests = Requests { bytes: Vec::new(), replies: numbers.len() as u64 };
    let mut item = Vec::new();
    for group in numbers.chunks(per_command) {
        encode_head(&mut requests.bytes, group.len() + 2);
        encode_argument(&mut requests.bytes, command.as_bytes());
        encode_argument(&mut requests.bytes, key.as_bytes());
        for number in group {
            items::write(&mut item, *number);
            encode_argument(&mut requests.bytes, &item);
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_that_of_the_servers() {
        use super::*;
        // The test vector of the servers' crc64.c.
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        let bytes: Vec<u8> = (0..=255).collect();
        let one_by_one = bytes.iter().fold(0u64, |crc, byte| {
            let [first, ..] = (crc ^ u64::from(*byte)).to_le_bytes();
            crc >> 8 ^ CRC_TABLES[0][usize::from(first)]
        });
        assert_eq!(crc64(&bytes), one_by_one);
    }

    #[test]
    fn only_the_zeros_of_a_dump_are_overwritten() {
        use super::*;
        let mut payload = [vec![7; 10], vec![0; 1000], vec![9; 10]].concat();
        overwrite_zeros(&mut payload, &[255; 64]).unwrap();
        assert!(payload.starts_with(&[7; 10]) && payload.ends_with(&[9; 10]));
        assert!(payload.iter().filter(|byte| **byte == 255).count() > 950);
        assert!(overwrite_zeros(&mut [1, 2, 0, 0, 3], &[255]).is_err());
    }
}
