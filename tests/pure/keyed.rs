//! Keyed filters: who does not know the key cannot choose items that one takes for others; and their bytes.

use everbloom::bloom::keyed::HashKey;
use everbloom::bloom::{
    Chain, Everbloom, Filter, Format, Growth, ItemHash, Keyed, NoPrefetch, UnknownMemory, hash128,
};
use everbloom::format::DecodeError;
use everbloom::format::filter::{from_header, header, load, load_chunk, piece, rewrite, save};
use everbloom::format::keyed::header::KEYED_HEADER_BYTES;
use everbloom::format::pieces::Trust;
use crate::support::{Field, Record};

/// No limit.
const ANY: u64 = u64::MAX;
const KEY: [u8; 16] = *b"0123456789abcdef";

fn parameters(error_rate: f64, capacity_items: u64, growth: Growth) -> Everbloom {
    Everbloom { error_rate, capacity_items, growth }
}

fn keyed(parameters: Everbloom, key: [u8; 16], items: u64) -> Filter {
    let family = Keyed { parameters, key: HashKey::new(key) };
    let mut filter = Filter::Keyed(Box::new(Chain::try_new(family, &ANY).unwrap()));
    for item in 0..items {
        filter.add(format!("item-{item}").as_bytes(), &ANY, NoPrefetch).unwrap();
    }
    filter
}

fn samples() -> Vec<Filter> {
    let scaling = Growth::Scaling { expansion: 2 };
    vec![
        keyed(parameters(0.01, 100, scaling), KEY, 0),
        keyed(parameters(0.01, 100, scaling), KEY, 60),
        keyed(parameters(0.001, 10, scaling), [0xff; 16], 300),
        keyed(parameters(0.01, 60, Growth::Saturating), [0; 16], 400),
        keyed(parameters(0.01, 3_000_000, Growth::Fixed), KEY, 5000),
    ]
}

/// The item of 16 bytes whose MurmurHash3 x64_128 with seed 0 this is: every step of the hash, undone.
fn preimage(hash: ItemHash) -> [u8; 16] {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    // Newton's iteration doubles the right bits of an inverse modulo 2^64.
    let inverse = |odd: u64| (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
    let unmix = |mut k: u64| {
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        k ^= k >> 33;
        k = k.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        k ^ (k >> 33)
    };
    let ItemHash { mut h1, mut h2 } = hash;
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (unmix(h1), unmix(h2));
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (h1 ^ 16, h2 ^ 16);
    let k2 = h2.wrapping_sub(0x3849_5ab5).wrapping_mul(inverse(5)).wrapping_sub(h1).rotate_right(31);
    let k1 = h1.wrapping_sub(0x52dc_e729).wrapping_mul(inverse(5)).rotate_right(27);
    let k2 = k2.wrapping_mul(inverse(C1)).rotate_right(33).wrapping_mul(inverse(C2));
    let k1 = k1.wrapping_mul(inverse(C2)).rotate_right(31).wrapping_mul(inverse(C1));
    [k1.to_le_bytes(), k2.to_le_bytes()].concat().try_into().unwrap()
}

#[test]
fn items_that_are_crafted_for_the_known_hash_meet_a_keyed_filter_as_any_others() {
    // Scattered, and paged.
    for capacity_items in [1000, 3_000_000] {
        let parameters = parameters(1e-6, capacity_items, Growth::default());
        let mut plain = Filter::Everbloom(Chain::reserve(parameters, &ANY).unwrap());
        let mut secret = keyed(parameters, KEY, 0);
        for filter in [&mut plain, &mut secret] {
            filter.add(b"victim", &ANY, NoPrefetch).unwrap();
        }
        let victim = hash128(b"victim");
        let crafted: Vec<_> = (1..=2000u64)
            .map(|number| {
                let hash = if capacity_items == 1000 {
                    // Layout 1 looks at `h1 XOR rotate_left(h2, 29)` alone.
                    let h2 = victim.h2.wrapping_add(number);
                    ItemHash { h1: victim.h1 ^ victim.h2.rotate_left(29) ^ h2.rotate_left(29), h2 }
                } else {
                    // The page of layout 2 is that of the high bits of h1.
                    ItemHash { h1: victim.h1 ^ number, ..victim }
                };
                preimage(hash)
            })
            .collect();
        assert!(crafted.iter().all(|item| item.as_slice() != b"victim"));
        let hits = |filter: &Filter| crafted.iter().filter(|item| filter.contains(*item, NoPrefetch)).count();
        assert_eq!((hits(&plain), hits(&secret)), (2000, 0), "capacity {capacity_items}");
        assert!(secret.contains(b"victim", NoPrefetch));
    }
}

#[test]
fn two_keys_take_different_items_for_others() {
    // Filled far beyond what it is for, so that nearly every third absent item is a false positive.
    let make = |key| keyed(parameters(0.1, 100, Growth::Saturating), key, 200);
    let (one, other, same) = (make([1; 16]), make([2; 16]), make([1; 16]));
    let absent: Vec<String> = (0..2000).map(|item| format!("absent-{item}")).collect();
    let hits = |filter: &Filter| -> Vec<bool> {
        absent.iter().map(|item| filter.contains(item.as_bytes(), NoPrefetch)).collect()
    };
    assert_eq!(hits(&one), hits(&same));
    let both = hits(&one).iter().zip(hits(&other)).filter(|(one, other)| **one && *other).count();
    let alone = hits(&one).iter().filter(|hit| **hit).count();
    assert!(alone > 300 && both < alone * 2 / 3, "{both} of {alone}");
}

#[test]
fn a_keyed_filter_differs_from_a_plain_one_by_its_hash_alone() {
    for filter in samples() {
        let Filter::Keyed(chain) = &filter else { panic!("{filter:?}") };
        let Keyed { parameters, key } = *chain.family();
        let mut plain = Chain::reserve(parameters, &ANY).unwrap();
        for item in 0..5000u64.min(chain.items() * 4 + 1) {
            let digest = key.hash128(format!("item-{item}").as_bytes());
            if chain.contains(digest) {
                plain.add(digest, &ANY).unwrap();
            }
        }
        if chain.items() == plain.items() {
            let bytes = |layers: &[everbloom::bloom::Layer]| -> Vec<Vec<u8>> {
                layers.iter().map(|layer| layer.bits().bytes().to_vec()).collect()
            };
            assert_eq!(bytes(plain.layers()), bytes(chain.layers()));
        }
    }
}

#[test]
fn the_bytes_are_as_documented() {
    for filter in samples() {
        let Filter::Keyed(chain) = &filter else { panic!("{filter:?}") };
        let header = header(&filter);
        let Keyed { parameters, key } = *chain.family();
        assert_eq!(KEYED_HEADER_BYTES, 48);
        assert_eq!(header[..8], *b"evbl\x01\x00\x05\x00");
        assert_eq!(header[12..16], parameters.growth.expansion().to_le_bytes());
        assert_eq!(header[16..24], parameters.error_rate.to_le_bytes());
        assert_eq!(header[24..32], parameters.capacity_items.to_le_bytes());
        assert_eq!(header[32..48], *key.bytes());
        assert_eq!(header.len(), 48 + 40 * chain.layers().len());
        for (index, layer) in chain.layers().iter().enumerate() {
            let layer_header = &header[48 + 40 * index..];
            assert_eq!(u32::from(layer_header[2]), layer.shape().probes);
            assert_eq!(layer_header[3], 2, "the hash");
            assert_eq!(layer_header[24..32], layer.counts().items.to_le_bytes());
        }
    }
}

fn saved(filter: &Filter) -> Record {
    let mut record = Record::default();
    save(&mut filter.try_clone(UnknownMemory).unwrap(), &mut record, UnknownMemory);
    record
}

#[test]
fn a_keyed_filter_travels_every_way() {
    for mut filter in samples() {
        let record = saved(&filter);
        let again = load(Format::Everbloom, 1, &mut record.reader(), &ANY).unwrap();
        assert_eq!((header(&again), saved(&again)), (header(&filter), record));
        filter.mark_state(7);
        let mut iterator = 0;
        let mut made: Option<Filter> = None;
        while let Some(piece) = piece(&filter, iterator).unwrap() {
            iterator = piece.next_iterator;
            match &mut made {
                None => made = Some(from_header(&piece.data, &ANY).unwrap()),
                Some(made) => load_chunk(made, iterator, &piece.data, Trust::Marks).unwrap(),
            }
        }
        assert_eq!(saved(&made.unwrap()), saved(&filter));
        let mut commands = 0;
        rewrite(&filter, UnknownMemory, 9, &mut |_| commands += 1).unwrap();
        assert!(commands >= 1);
        let emptied = filter.try_emptied(&u64::MAX).unwrap();
        assert!(emptied.is_empty() && header(&emptied)[..48][32..] == header(&filter)[32..48]);
    }
}

#[test]
fn a_header_with_any_field_at_any_edge_is_refused_or_behaves() {
    const EDGES: [u64; 12] = [0, 1, 2, 5, 50, 64, 255, 256, 0xffff_ffff, 1 << 43, u64::MAX >> 1, u64::MAX];
    let (mut refused, mut accepted) = (0, 0);
    for filter in samples().iter().take(4) {
        let bytes = header(filter);
        for at in (0..bytes.len()).step_by(1) {
            for (value, width) in EDGES.iter().flat_map(|value| [1, 4, 8].map(|width| (value, width))) {
                if at + width > bytes.len() {
                    continue;
                }
                let mut altered = saved(filter);
                let mut changed = bytes.clone();
                changed[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                altered.0[0] = Field::Bytes(changed);
                match load(Format::Everbloom, 1, &mut altered.reader(), &(64u64 << 20)) {
                    Err(_) => refused += 1,
                    Ok(mut filter) => {
                        accepted += 1;
                        for item in 0..5u64 {
                            if filter.add(&item.to_le_bytes(), &(64u64 << 20), NoPrefetch).is_ok() {
                                assert!(filter.contains(&item.to_le_bytes(), NoPrefetch));
                            }
                        }
                        let again = saved(&filter);
                        let loaded = load(Format::Everbloom, 1, &mut again.reader(), &ANY).unwrap();
                        assert_eq!(saved(&loaded), again);
                    }
                }
            }
        }
        for length in 0..bytes.len() {
            let mut cut = saved(filter);
            cut.0[0] = Field::Bytes(bytes[..length].to_vec());
            assert!(load(Format::Everbloom, 1, &mut cut.reader(), &ANY).is_err(), "{length}");
        }
    }
    assert!(refused > 1000 && accepted > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn the_hash_of_a_layer_goes_with_the_kind() {
    let refusal = |filter: &Filter, at: usize, value: u8| {
        let mut bytes = header(filter);
        bytes[at] = value;
        let mut altered = saved(filter);
        altered.0[0] = Field::Bytes(bytes);
        load(Format::Everbloom, 1, &mut altered.reader(), &ANY).unwrap_err()
    };
    let filter = &samples()[1];
    assert_eq!(refusal(filter, 51, 1), DecodeError::Unsupported { what: "hash", got: 1 });
    assert_eq!(refusal(filter, 6, 9), DecodeError::Unsupported { what: "kind", got: 9 });
    let mut plain = Filter::Everbloom(Chain::reserve(Everbloom::default(), &ANY).unwrap());
    plain.add(b"a", &ANY, NoPrefetch).unwrap();
    assert_eq!(refusal(&plain, 35, 2), DecodeError::Unsupported { what: "hash", got: 2 });
}
