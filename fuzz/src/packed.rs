//! Sends packed batches: complete ones, truncated ones and random bytes. A batch must have the same effect as its items
//! one by one, a truncated batch must have no effect, and a replica must have the same filter.

use everbloom_command::Settings;
use everbloom_filter::Filter;

use super::input::Input;
use super::words::{creation, number};
use crate::saved::assert_same;
use crate::server::NOW_MS;
use crate::slices;
use crate::world::World;

/// The filter to which batches are added, and the one to which their items are added.
const KEYS: [&[u8]; 2] = [b"packed", b"single"];

/// Adds and checks some batches.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let mut world = World::pair(Settings { max_filter_bytes: limit, ..Settings::DEFAULT }, NOW_MS);
    let choice = input.below(4);
    let words = creation(&mut input, false);
    for key in KEYS {
        match choice {
            0 => {}
            1 => {
                let name = String::from_utf8_lossy(key);
                // Some generated items are not numbers, which this encoding cannot represent.
                let scheme = "EMPTY SCHEME go-zero BITS 2000 CAPACITY 50 ENCODING int64le";
                world.run(&format!("BF.IMPORT {name} {scheme}"));
            }
            _ => drop(world.call_with(&[b"BF.RESERVE", key], &words)),
        }
    }
    for _ in 0..12 {
        if input.is_empty() {
            break;
        }
        if input.below(3) == 0 {
            let size_bytes = world.filter(KEYS[0]).map_or(0, Filter::size_bytes);
            world.limit(input.tight_limit_bytes(size_bytes));
        }
        batch(&mut world, &mut input);
    }
    world.check_all();
}

/// Returns the packing and the data of a batch as arguments, and the items in the data; `None` if the data is invalid.
/// Most batches are complete.
fn packed(input: &mut Input<'_>) -> (Vec<Vec<u8>>, Option<Vec<Vec<u8>>>) {
    let flags = input.byte();
    let items = if flags & 1 == 0 { input.items(80) } else { Vec::new() };
    let (mut words, mut data) = (Vec::new(), Vec::new());
    let mut length = b"8".to_vec();
    match flags >> 1 & 3 {
        0 | 1 => {
            words.push(b"LINES".to_vec());
            items.iter().for_each(|item| data.extend([item, &b"\n"[..]].concat()));
        }
        2 => {
            words.push(b"FIXED".to_vec());
            if flags & 8 != 0 {
                length = number(input);
            }
            words.push(length.clone());
            items.iter().for_each(|item| data.extend((0..8).map(|at| item.get(at).copied().unwrap_or(0))));
        }
        _ => {
            words.push(b"PREFIXED".to_vec());
            for item in &items {
                data.extend((item.len() as u32).to_le_bytes());
                data.extend(item);
            }
        }
    }
    if flags & 0x30 == 0x30 {
        data.truncate(usize::from(input.u16()) % (data.len() + 1));
    }
    if flags & 1 == 1 {
        let length = usize::from(input.byte()) * 4;
        data.extend_from_slice(input.bytes(length));
    }
    let items = cut(&words, &length, &data);
    words.push(data);
    (words, items)
}

/// Returns the items of a batch by the rules of docs/bulk-loading.md; `None` if the batch is invalid.
fn cut(words: &[Vec<u8>], length: &[u8], data: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = data;
    let mut items = Vec::new();
    match words[0].as_slice() {
        b"LINES" => {
            let mut lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
            if lines.last().is_some_and(|last| last.is_empty()) {
                lines.pop();
            }
            return Some(lines.into_iter().map(<[u8]>::to_vec).collect());
        }
        b"FIXED" => {
            // Numbers are written as in every command: no sign, no leading zero.
            let text = str::from_utf8(length).ok()?;
            let bytes: usize = text.parse().ok().filter(|bytes: &usize| bytes.to_string() == text)?;
            if bytes == 0 || !data.len().is_multiple_of(bytes) || i64::try_from(bytes).is_err() {
                return None;
            }
            return Some(data.chunks(bytes).map(<[u8]>::to_vec).collect());
        }
        _ => {
            while !rest.is_empty() {
                let (length, behind) = rest.split_at_checked(4)?;
                let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
                let (item, behind) = behind.split_at_checked(length)?;
                items.push(item.to_vec());
                rest = behind;
            }
        }
    }
    Some(items)
}

fn batch(world: &mut World, input: &mut Input<'_>) {
    let choice = input.byte();
    let (words, items) = packed(input);
    let (bulk, single) = if choice & 1 == 0 {
        (&b"BF.BULKADD"[..], &b"BF.ADD"[..])
    } else {
        (&b"BF.BULKEXISTS"[..], &b"BF.EXISTS"[..])
    };
    let is_count = choice & 6 == 6;
    let mut argv: Vec<&[u8]> = vec![bulk, KEYS[0]];
    argv.extend(is_count.then_some(&b"COUNT"[..]));
    argv.extend(slices(&words));
    let reply = world.call(&argv);
    let Some(items) = items else {
        assert!(reply.starts_with('-'), "{reply} to a torn batch");
        return;
    };
    let mut expected = String::new();
    for item in &items {
        expected.push(match world.call(&[single, KEYS[1], item]).as_str() {
            "#t" => '1',
            "#f" => '0',
            _ => '!',
        });
    }
    if is_count {
        assert_eq!(reply, format!(":{}", expected.matches('1').count()));
    } else {
        assert_eq!(reply, format!("${expected}"));
    }
    match (world.filter(KEYS[0]), world.filter(KEYS[1])) {
        (Some(packed), Some(single)) => assert_same(single, packed, "packed and one by one"),
        (packed, single) => assert_eq!(packed.is_none(), single.is_none()),
    }
}
