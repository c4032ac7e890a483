//! Layer sizes: large enough by an exact calculation and by the fill of real layers, and no larger than promised.

use everbloom::{Format, Growth, Options, filter_size};
use everbloom_filter::bits::layout::{LINE_BITS, PAGE_LINES};
use everbloom_filter::bits::sizing::LayerShape;
use everbloom_filter::hash::murmur3::hash128;
use everbloom_filter::limits::{CAPACITY_MAX_ITEMS, LAYER_ERROR_RATE_MIN, LAYER_MAX_BYTES, PAGED_MIN_BYTES};
use everbloom_filter::{Filter, Hash, ItemHash, Layer, LayerSpec, Policy, Promise};

use crate::support::make::add;
use crate::support::{Random, effort};

/// Rates over the whole range.
const RATES: [f64; 14] =
    [0.999, 0.9, 0.5, 0.25, 0.1, 0.05, 0.01, 0.0075, 1e-3, 1e-4, 1e-6, 1e-9, 1e-12, LAYER_ERROR_RATE_MIN];

#[test]
fn one_per_cent_needs_at_most_the_promised_bits_per_item() {
    // A fixed filter uses all of 1 % for its only layer, a scaling one 0.75 % for its first layer.
    for (error_rate, bits_per_item_max) in [(0.01, 9.72), (0.0075, 10.32)] {
        let (mut largest, mut at) = (0.0, 0);
        let mut items = 10_000u64;
        while items <= 1_000_000_000 {
            let bits_per_item = LayerShape::sized(items, error_rate).positions as f64 / items as f64;
            if bits_per_item > largest {
                (largest, at) = (bits_per_item, items);
            }
            // The steps are finest where paged layers begin: rounding up to pages has the largest effect there.
            let steps = if (750_000..1_000_000).contains(&items) { 20_000 } else { 1_000 };
            items += items / steps;
        }
        println!("{error_rate}: at most {largest:.4} bits per item, at {at} items");
        assert!(largest <= bits_per_item_max, "{largest} bits per item for {at} items at {error_rate}");
    }
}

#[test]
fn a_full_layer_has_exactly_the_rate_it_was_sized_for() {
    for asked in RATES {
        let mut items = 1u64;
        while items < 1 << 34 {
            let rate = LayerShape::sized(items, asked).full_rate();
            assert!(rate <= asked.min(1.0 - 1e-6) * (1.0 + 1e-9), "{rate} for {items} at {asked}");
            // With few items, rounding to words or pages leaves unused bits.
            assert!(items < 100_000 || rate > asked * 0.9, "{rate} for {items} at {asked}");
            items = items * 3 / 2 + 1;
        }
    }
}

#[test]
fn paged_layers_are_little_larger_than_scattered_ones() {
    // The rates go down to 1e-6, and most are between those of the table of lines. The size is compared with that of an
    // unlimited array without pages for the same number of distinct items.
    let mut rate = 0.5;
    while rate >= 1e-6 {
        let paged = LayerShape::sized(CAPACITY_MAX_ITEMS, rate).positions as f64;
        let scattered = (1..=50)
            .map(|probes| {
                let fill = rate.powf(1.0 / f64::from(probes));
                let counted: f64 = (1..=probes).map(|i| fill.powi(i) / f64::from(i)).sum();
                CAPACITY_MAX_ITEMS as f64 * f64::from(probes) / counted
            })
            .fold(f64::INFINITY, f64::min);
        let overhead = paged / scattered - 1.0;
        assert!((-1e-4..0.012).contains(&overhead), "{overhead} at {rate}");
        rate *= 0.97;
    }
}

#[test]
fn more_items_never_take_fewer_bits() {
    for rate in RATES {
        let mut last = 0;
        let mut items = 1u64;
        while items <= CAPACITY_MAX_ITEMS {
            let bits = LayerShape::sized(items, rate).positions;
            assert!(bits >= last, "{items} items at {rate}: {bits} bits, fewer items {last}");
            last = bits;
            items += if items < 3_000 { 1 } else { items / 100 };
        }
    }
}

#[test]
fn lower_rates_need_more_bits_except_at_a_step_to_more_lines() {
    for items in [1, 7, 100, 10_000, 1_000_000, 5_000_000, 1_000_000_000] {
        let mut last = LayerShape::sized(items, 0.9999);
        let mut rate = 0.9999;
        while rate > LAYER_ERROR_RATE_MIN {
            rate *= 0.98;
            let size = LayerShape::sized(items, rate);
            let allowed = if size.lines == last.lines { 1.0 } else { 0.987 };
            assert!(
                size.positions as f64 >= last.positions as f64 * allowed,
                "{items} items at {rate}: {size:?}, at a higher rate {last:?}"
            );
            last = size;
        }
    }
}

#[test]
fn extreme_arguments_give_valid_shapes_or_sizes_past_the_limit() {
    let rates = [f64::from_bits(1), 1e-300, 1e-16, 1e-15, 1.0 - f64::EPSILON / 2.0, 1.0 - f64::EPSILON];
    for rate in rates.into_iter().chain(RATES) {
        for items in [1, 2, 63, 64, 100, 10_000, 1 << 20, 1 << 31, CAPACITY_MAX_ITEMS - 1, CAPACITY_MAX_ITEMS]
        {
            let shape = LayerShape::sized(items, rate);
            let too_large = shape.positions / 8 > LAYER_MAX_BYTES;
            assert_eq!(
                shape.validate(),
                if too_large { Err("positions") } else { Ok(()) },
                "{items} items at {rate}: {shape:?}"
            );
            assert!(!too_large || items >= 1 << 31, "{items} items at {rate}: {shape:?}");
            // Each counted item sets a clear bit.
            assert!(shape.positions >= items, "{items} items at {rate} never fit: {shape:?}");
            assert_eq!(shape.lines == 0, shape.positions / 8 < PAGED_MIN_BYTES);
        }
    }
    let least = LayerShape::sized(1_000, LAYER_ERROR_RATE_MIN);
    for rate in [f64::from_bits(1), 0.0, -1.0, f64::NEG_INFINITY, f64::NAN, LAYER_ERROR_RATE_MIN / 2.0] {
        assert_eq!(LayerShape::sized(1_000, rate), least, "{rate} is sized as the smallest rate");
    }
    for items in [0, u64::MAX] {
        assert!(LayerShape::sized(items, 0.01).positions > 0, "no panic outside the promised range");
    }
}

#[test]
fn sizes_are_the_same_on_every_machine_and_in_every_version() {
    // A primary and its replica each compute the size of a layer. Here are pairs of items and rate over their whole
    // range, and close to where layers get another line. The digest of their sizes is that of the first release.
    let mut random = Random(17);
    let mut sizes = Vec::new();
    let mut paged = 0;
    for _ in 0..20_000 {
        let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64;
        let items = libm::exp2(unit(random.next()) * 40.0) as u64;
        let (choice, share) = (random.next(), unit(random.next()));
        let rate = match choice % 4 {
            0 => share,
            1 => {
                [0.05, 3.5e-3, 5e-4, 5e-5, 5e-6, 5e-7, 1e-7][(choice >> 8) as usize % 7]
                    * (1.0 + (share - 0.5) * 1e-3)
            }
            _ => libm::exp2(-52.0 * share),
        };
        let shape = LayerShape::sized(items, rate);
        let LayerShape { lines, probes, .. } = shape;
        paged += u32::from(lines > 0);
        sizes.extend([&[lines, probes as u8][..], &shape.positions.to_le_bytes()].concat());
    }
    assert!((8_000..12_000).contains(&paged), "{paged} of 20000 are paged");
    let recorded = ItemHash { h1: 0x13ec_15cd_b85d_b3c1, h2: 0x1fa2_3900_dc13_fd5b };
    assert_eq!(hash128(&sizes), recorded);
}

/// Returns the exact error rate of a scattered layer that has counted `items` items. The set bits are a Markov chain.
/// One step is the `probes` probes of an item, given that they do not all hit set bits, because such an item is not
/// counted.
fn exact_scattered_rate(items: u64, size: LayerShape) -> f64 {
    let bits = size.positions as f64;
    let occupied_max = (items * u64::from(size.probes)).min(size.positions) as usize;
    let all_hit = |occupied: usize| (occupied as f64 / bits).powi(size.probes as i32);
    let mut states = vec![0.0; occupied_max + 1];
    states[0] = 1.0;
    for _ in 0..items {
        let given_new: Vec<f64> = states
            .iter()
            .enumerate()
            .map(|(occupied, share)| if *share > 0.0 { share / (1.0 - all_hit(occupied)) } else { 0.0 })
            .collect();
        let mut next = given_new.clone();
        for _ in 0..size.probes {
            for occupied in (1..=occupied_max).rev() {
                let (hit, missed) = (occupied as f64 / bits, 1.0 - (occupied - 1) as f64 / bits);
                next[occupied] = next[occupied] * hit + next[occupied - 1] * missed;
            }
            next[0] = 0.0;
        }
        for (occupied, share) in next.iter_mut().enumerate() {
            *share = (*share - given_new[occupied] * all_hit(occupied)).max(0.0);
        }
        states = next;
    }
    let rate: f64 = states.iter().enumerate().map(|(occupied, share)| share * all_hit(occupied)).sum();
    rate / states.iter().sum::<f64>()
}

#[test]
fn small_layers_have_the_least_size_that_keeps_the_rate() {
    let (mut sizes, mut not_smallest) = (0, 0);
    for rate in RATES {
        for items in
            (1..=effort(8, 32)).chain(effort(&[48][..], &[48, 64, 99, 100, 101, 150, 250]).iter().copied())
        {
            if items > 100 && rate < 1e-6 {
                continue;
            }
            let size = LayerShape::sized(items, rate);
            let exact = exact_scattered_rate(items, size);
            assert!(exact <= rate * (1.0 + 1e-9), "{items} items at {rate}: {exact} with {size:?}");
            sizes += 1;
            let word_less = size.positions - 64;
            if word_less >= items {
                let keeps = |probes| {
                    exact_scattered_rate(items, LayerShape { probes, positions: word_less, ..size }) <= rate
                };
                not_smallest +=
                    u32::from((size.probes.saturating_sub(2).max(1)..=size.probes + 2).any(keeps));
            }
        }
    }
    println!("{not_smallest} of {sizes} sizes are a word larger than the exact calculation asks for");
    assert!(not_smallest * 50 <= sizes, "{not_smallest} of {sizes}");
}

/// Returns a random item.
fn random_item(random: &mut Random) -> [u8; 16] {
    (u128::from(random.next()) << 64 | u128::from(random.next())).to_le_bytes()
}

/// Returns a filter of one layer of this shape that has counted its capacity.
fn full_filter(shape: LayerShape, random: &mut Random) -> Filter {
    let promise = Promise { error_rate: 0.01, capacity_items: shape.capacity_items, growth: Growth::Fixed };
    let layer = Layer::try_new(LayerSpec::of_shape(shape, Hash::Murmur3)).unwrap();
    let mut filter = Filter::from_parts(Policy::Everbloom(promise), vec![layer], None).unwrap();
    while !filter.layers()[0].is_full() {
        add(&mut filter, &random_item(random)).unwrap();
    }
    filter
}

/// Returns the exact error rate of a paged layer, over all pages, all 2048 pairs of a first line and an odd step, and
/// all positions in the lines.
fn rate_by_fill(layer: &Layer) -> f64 {
    let LayerShape { lines, probes, .. } = layer.shape().unwrap();
    let line_probes = |role: u32| probes / u32::from(lines) + u32::from(role < probes % u32::from(lines));
    let (mut sum, mut count) = (0.0, 0.0);
    for page in layer.bits().pages() {
        let fills: Vec<f64> = page
            .chunks_exact((LINE_BITS / 64) as usize)
            .map(|line| f64::from(line.iter().map(|word| word.count_ones()).sum::<u32>()) / LINE_BITS as f64)
            .collect();
        let by_role: Vec<Vec<f64>> = (0..u32::from(lines))
            .map(|role| {
                let probes = line_probes(role) as i32;
                fills.iter().map(|fill| fill.powi(probes)).collect()
            })
            .collect();
        for first in 0..PAGE_LINES {
            for step in (1..PAGE_LINES).step_by(2) {
                let line_of = |role: usize| (first + step * role) % PAGE_LINES;
                sum +=
                    by_role.iter().enumerate().map(|(role, powers)| powers[line_of(role)]).product::<f64>();
                count += 1.0;
            }
        }
    }
    sum / count
}

#[test]
fn the_fill_of_full_paged_layers_keeps_the_rate() {
    // Rates for every number of lines. From the fill of a layer of 1 MiB the rate follows to within about 0.15 %.
    let all =
        [(0.25, 3), (0.01, 4), (0.0075, 4), (1e-3, 4), (1e-4, 4), (1e-5, 4), (1e-6, 4), (2e-7, 4), (1e-9, 6)];
    let quick = [(1e-3, 3)];
    for &(rate, filters) in effort(&quick[..], &all) {
        let rounded = LayerShape::sized(CAPACITY_MAX_ITEMS, rate);
        let positions = PAGED_MIN_BYTES * 8;
        let bits_per_item = rounded.positions as f64 / CAPACITY_MAX_ITEMS as f64;
        let capacity_items = (positions as f64 / bits_per_item) as u64;
        let shape = LayerShape { positions, capacity_items, ..rounded };
        let rates: Vec<f64> = (1..=filters)
            .map(|seed| rate_by_fill(&full_filter(shape, &mut Random(seed)).layers()[0]) / rate)
            .collect();
        let count = filters as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let spread = rates.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
        let sigma = (spread / (count - 1.0) / count).sqrt();
        println!("seeds 1..={filters}, {shape:?}: {mean:.5} of {rate:e}, sigma {sigma:.5}");
        assert!(mean <= 1.0 + 3.0 * sigma, "{mean} +- {sigma} of {rate}");
        assert!(mean >= 0.985 - 3.0 * sigma, "{mean} +- {sigma} of {rate}: larger than needed");
    }
}

/// Error rates whose logarithms differ in the last bit between glibc on processors with fused multiply-add and other
/// C libraries: 1 in 30,000 of the rates that people enter.
#[rustfmt::skip]
const RATES_OF_TWO_LOGARITHMS: [f64; 24] = [
    0.008194, 0.09792, 0.9107, 1.466875e-5, 3.7841796875e-14, 0.6387677167032, 0.66652243672888,
    0.88796954396881, 0.89751113142672, 0.91147556205323, 0.97116525963001, 0.000901938611946343,
    0.0439852101725127, 0.0479051230123686, 0.0713539744042998, 0.312095953727339, 0.616380926689439,
    0.665076581885869, 0.700317272552611, 0.708046813631073, 0.739977202333359, 0.789843894037433,
    0.791995041100295, 0.793342393153042,
];

/// The sizes of the foreign formats are computed with the C library's logarithm, as in RedisBloom and valkey-bloom.
/// The recorded numbers are those of glibc 2.36. A server with another library must create layers of the same sizes.
#[test]
fn layers_of_the_foreign_formats_have_the_same_sizes_with_every_c_library() {
    let seed = 0x006c_6f67;
    for (format, recorded) in
        [(Format::RedisBloom, 0xb1b5_ba04_b996_4e86), (Format::ValkeyBloom, 0x7d3c_6507_f5b3_3c97)]
    {
        let mut random = Random(seed);
        let (mut digest, mut pairs) = (0xcbf2_9ce4_8422_2325u64, 0);
        let mut size = |error_rate: f64, capacity_items: u64| {
            let options = Options { error_rate, capacity_items, growth: Growth::Fixed };
            let layer = filter_size(format, options, 1).unwrap().layers[0];
            for number in [layer.size_bits, layer.probes.into()] {
                digest = (digest ^ number).wrapping_mul(0x0000_0100_0000_01b3);
            }
            pairs += 1;
        };
        for _ in 0..300_000 {
            let typed: f64 = format!("{}e-{}", 1 + random.below(9999), 4 + random.below(9)).parse().unwrap();
            let halved = typed * 0.5f64.powi(random.below(40) as i32);
            let any = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
            for rate in [typed, halved, any].into_iter().filter(|rate| *rate > 0.0 && *rate < 1.0) {
                let shift = random.below(30) as u32;
                size(rate, 1 + (random.next() >> 34 >> shift));
            }
        }
        for rate in RATES_OF_TWO_LOGARITHMS {
            for _ in 0..20_000 {
                let shift = random.below(30) as u32;
                size(rate, 1 + (random.next() >> 34 >> shift));
            }
        }
        // Rates for which the number of probes is an integer before it is rounded up.
        (1..1022).for_each(|halvings| size(0.5f64.powi(halvings), 1000));
        println!("seed {seed}: {pairs} sizes of {format:?}, digest {digest:#x}");
        assert_eq!(digest, recorded, "seed {seed}, {format:?}");
    }
}
