//! Properties that hold for all parameters.

use std::collections::HashSet;

use everbloom::bloom::bits::layout::SchemeLayout;
use everbloom::bloom::filter::policy::{BitOrder, StringForm};
use everbloom::bloom::hash::scheme::{ItemEncoding, PHP_UNIT_BITS, Scheme, SchemeParameters};

use super::vectors::{Array, Random, positions};

/// Returns valid parameters with a small array.
fn parameters(random: &mut Random, scheme: Scheme) -> SchemeParameters {
    let encoding = ItemEncoding::ALL[random.below(7) as usize];
    let shift = random.below(u64::from(scheme.max_shift()) + 1) as u8;
    let probes = scheme.fixed_probes().unwrap_or(1 + random.below(40) as u32);
    let size_bits = match (scheme, random.below(8)) {
        (Scheme::PhpBkdrJsSdbm, _) => PHP_UNIT_BITS * (1 + random.below(8)),
        (_, 0) => 1,
        _ => 1 + random.below(100_000),
    };
    SchemeParameters { scheme, encoding, shift, probes, size_bits }
}

/// Returns an item that every encoding can express, and sometimes one that only bytes can.
fn item(random: &mut Random, encoding: ItemEncoding) -> Vec<u8> {
    match random.below(4) {
        0 if encoding == ItemEncoding::Raw => random.word().to_le_bytes().to_vec(),
        _ => (random.word() as i32).to_string().into_bytes(),
    }
}

#[test]
fn inserted_items_are_found_after_every_round_trip() {
    let seed = 0x0511_2026;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for scheme in Scheme::ALL {
        for _ in 0..60 {
            let parameters = parameters(&mut random, scheme);
            let layout = SchemeLayout::new(parameters).unwrap();
            assert_eq!(layout.parameters(), parameters);
            let order = [BitOrder::Msb, BitOrder::Lsb][random.below(2) as usize];
            let (form, bits) = StringForm::read(b"", order, layout.array_bits()).unwrap();
            let mut array = Array::new(layout, bits);
            let items: Vec<_> =
                (0..random.below(60)).map(|_| item(&mut random, parameters.encoding)).collect();
            let mut expected = HashSet::new();
            for item in &items {
                let fresh: HashSet<_> =
                    positions(&layout, item).into_iter().filter(|at| !expected.contains(at)).collect();
                assert_eq!(array.insert(item), Ok(fresh.len() as u64), "{parameters:?}");
                expected.extend(fresh);
            }
            let bits = array.bits();
            assert_eq!(bits.set_bits(), expected.len() as u64, "{parameters:?}");
            assert!(expected.iter().all(|position| bits.bit_view()[*position as usize]), "{parameters:?}");
            let string = form.write(bits).unwrap();
            assert_ne!(string.last(), Some(&0), "SETBIT leaves no clear byte at the end");
            let (form, again) = StringForm::read(&string, order, layout.array_bits()).unwrap();
            let again = Array::new(layout, again);
            assert!(items.iter().all(|item| again.contains(item)), "{parameters:?}");
            assert_eq!(form.write(again.bits()).unwrap(), string);
        }
    }
}
