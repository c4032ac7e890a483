//! Bytes that no release wrote: refused, or a filter that behaves.

use everbloom::bloom::limits::LAYERS_MAX;
use everbloom::bloom::policy::redisbloom::Options;
use everbloom::bloom::{ByteLimit, Depth, Filter, Layout, NoPrefetch, UnknownMemory};
use everbloom::format::DecodeError;

use super::{from_header, load, piece, read, saved};
use crate::support::make::{ANY, add, contains, redisbloom};
use crate::support::memory::largest_allocation;
use crate::support::{Field, Random, Record};

/// Most bytes of a filter in these tests.
pub(crate) const LIMIT_BYTES: u64 = 64 << 10;
/// Memory that may be had at once beside the arrays: as many layers as there may be, without their arrays.
const STRUCTS_MAX_BYTES: usize = LAYERS_MAX * 128;
/// What a layer of 4096 bytes answers for, whoever made it.
const PROBES_MAX: u32 = 2048;

/// Filters of three layers by the options of commands, of 1.0 and of 1.1, with the encoding to read them by.
pub(crate) fn bases() -> Vec<(i32, Record)> {
    let mut bases = Vec::new();
    for (encoding_version, options) in [(4, 5), (4, 13), (4, 0), (4, 6), (3, 4), (2, 0), (1, 0), (0, 0)] {
        let mut chain = redisbloom(0.1, 6, Options::from_bits(options).unwrap(), 2);
        // A fixed filter and one whose capacity is the logarithm of its bits have but one layer.
        for i in 0..40u8 {
            if add(&mut chain, &[i]).is_err() {
                break;
            }
        }
        let mut record = saved(&chain);
        if options == 0 || options == 4 {
            as_before_2_2(&mut record);
        }
        if encoding_version == 0 {
            without_bits(&mut record);
        }
        for (index, since) in [(3, 4), (2, 2)] {
            if encoding_version < since {
                record.0.remove(index);
            }
        }
        assert!(read(&record, encoding_version, ANY).is_ok());
        bases.push((encoding_version, record));
    }
    bases
}

/// Leaves out the bits where the exponent says them.
fn as_before_2_2(record: &mut Record) {
    for layer in record.0[4..].chunks_mut(8) {
        assert!(layer[5] != Field::Unsigned(0));
        layer[4] = Field::Unsigned(0);
    }
}

/// Leaves out bits and exponent, which follow from the capacity, and cuts the arrays to that.
fn without_bits(record: &mut Record) {
    let layers: Vec<Vec<Field>> = record.0[4..].chunks(8).map(<[Field]>::to_vec).collect();
    record.0.truncate(4);
    for mut layer in layers {
        if let ([Field::Unsigned(entries), _, _, Field::Double(bits_per_item)], Field::Bytes(bytes)) =
            (&layer[..4], layer[6].clone())
        {
            let bits = (*entries as f64 * bits_per_item) as usize;
            let mut bytes = bytes;
            bytes.resize(bits.div_ceil(8), 0);
            layer[6] = Field::Bytes(bytes);
        }
        layer.drain(4..6);
        record.0.append(&mut layer);
    }
}

/// What `field` may become.
fn edges(field: &Field) -> Vec<Field> {
    match field {
        Field::Unsigned(value) => {
            let powers = (0..64).flat_map(|power| [(1u64 << power) - 1, 1 << power, (1 << power) + 1]);
            let near = [
                value.wrapping_sub(1),
                value.wrapping_add(1),
                value << 1,
                value >> 1,
                value.wrapping_neg(),
                u64::MAX,
            ];
            let near_too = [
                u64::MAX - 1,
                i64::MAX as u64 - 7,
                value.wrapping_add(64),
                value.wrapping_add(8),
                value ^ 2,
                value ^ 8,
            ];
            powers.chain(near).chain(near_too).map(Field::Unsigned).collect()
        }
        Field::Double(value) => {
            let edges =
                [0.0, 1.0, 2.0, 0.5, 1e-300, 5e-324, 1e300, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY];
            let near = [value.next_up(), value.next_down(), value * 2.0, value / 2.0, value * 1e9, *value];
            let signed = edges.into_iter().chain(near).flat_map(|edge| [edge, -edge]);
            let nan = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)];
            let below_one = [1.0f64.next_down(), 1549.5, 2955.0, 3000.0];
            signed.chain(nan).chain(below_one).map(Field::Double).collect()
        }
        Field::Bytes(bytes) => {
            let longer = |more: usize| [bytes.clone(), vec![255; more]].concat();
            let full = vec![255; bytes.len()];
            let edges = [
                vec![],
                bytes.get(1..).unwrap_or_default().to_vec(),
                longer(1),
                longer(8),
                longer(bytes.len()),
                full,
            ];
            edges.into_iter().chain([longer(LIMIT_BYTES as usize)]).map(Field::Bytes).collect()
        }
    }
}

/// A value for `field`, an edge or any.
fn anything(field: &Field, random: &mut Random) -> Field {
    match (field, random.below(4)) {
        (Field::Unsigned(_), 0) => Field::Unsigned(random.next() >> random.below(64)),
        (Field::Double(_), 0) => Field::Double(f64::from_bits(random.next())),
        (Field::Bytes(bytes), 0) => {
            Field::Bytes(vec![random.next() as u8; random.below(2 * bytes.len() + 1)])
        }
        _ => random.choose(&edges(field)).clone(),
    }
}

/// Counts of what became of altered records.
#[derive(Debug, Default)]
struct Outcomes {
    refused: u32,
    loaded: u32,
}

impl Outcomes {
    /// Loads a record and, if that succeeds, uses the filter.
    fn try_record(&mut self, record: &Record, encoding_version: i32, context: &str) {
        let (outcome, largest_bytes) = largest_allocation(|| read(record, encoding_version, LIMIT_BYTES));
        self.judge(outcome, largest_bytes, context);
    }

    /// Reads a header and, if that succeeds, uses the filter.
    fn try_header(&mut self, header: &[u8], context: &str) {
        let (outcome, largest_bytes) = largest_allocation(|| from_header(header, LIMIT_BYTES));
        self.judge(outcome, largest_bytes, context);
    }

    fn judge(&mut self, outcome: Result<Filter, DecodeError>, largest_bytes: usize, context: &str) {
        assert!(
            largest_bytes <= STRUCTS_MAX_BYTES.max(LIMIT_BYTES as usize),
            "{context}: {largest_bytes} bytes at once"
        );
        match outcome {
            Ok(chain) => {
                self.loaded += 1;
                assert_behaves(chain, context);
            }
            Err(error) => {
                self.refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
}

/// A filter that loaded is bounded, finds what is added, and is saved so that it loads again.
fn assert_behaves(mut chain: Filter, context: &str) {
    let bytes: u64 = chain.layers().iter().map(|layer| layer.cells().size_bytes()).sum();
    assert!(bytes <= LIMIT_BYTES && (1..=LAYERS_MAX).contains(&chain.layer_count()), "{context}");
    for layer in chain.layers() {
        assert!((1..=PROBES_MAX).contains(&layer.layout().probes()), "{context}");
        let Layout::Modulo(modulo) = layer.layout() else { panic!("{context}") };
        assert!(modulo.modulus().divisor() <= layer.cells().size_bits(), "{context}");
    }
    assert_eq!(chain.internal_validate(Depth::Cells), Ok(()), "{context}");
    let limit = LIMIT_BYTES.max_filter_bytes() * 2;
    let added: Vec<[u8; 2]> =
        (0..60u16).map(u16::to_le_bytes).filter(|item| chain.add(item, &limit, NoPrefetch).is_ok()).collect();
    assert!(added.iter().all(|item| contains(&chain, item)), "{context}");
    let record = saved(&chain);
    assert_eq!(saved(&load(&record, 4)), record, "{context}");
    let pieces = from_header(&piece(&chain, 0).unwrap().data, ANY);
    assert_eq!(pieces.unwrap().items(), chain.items(), "{context}");
    assert!(chain.try_clone(UnknownMemory).is_ok());
}

#[test]
fn altered_snapshots_are_refused_or_behave() {
    let mut outcomes = Outcomes::default();
    for (base, (encoding_version, record)) in bases().into_iter().enumerate() {
        for index in 0..record.0.len() {
            for edge in edges(&record.0[index]) {
                let mut altered = record.clone();
                let context = format!("base {base}, field {index} is {edge:?}");
                altered.0[index] = edge;
                outcomes.try_record(&altered, encoding_version, &context);
            }
            // Cut before the field, the field left out, the field twice, the field of another kind.
            let context = format!("base {base}, field {index} out of place");
            let mut altered = [(); 4].map(|()| record.clone());
            altered[0].0.truncate(index);
            altered[1].0.remove(index);
            altered[2].0.insert(index, record.0[index].clone());
            altered[3].0[index] = match &record.0[index] {
                Field::Unsigned(value) => Field::Double(f64::from_bits(*value)),
                Field::Double(value) => Field::Unsigned(value.to_bits()),
                Field::Bytes(bytes) => Field::Unsigned(bytes.len() as u64),
            };
            altered.iter().for_each(|altered| outcomes.try_record(altered, encoding_version, &context));
        }
        // Read by the wrong encoding.
        for wrong in [i32::MIN, -1, 0, 1, 2, 3, 4, 5, i32::MAX] {
            outcomes.try_record(&record, wrong, &format!("base {base} as encoding {wrong}"));
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.refused > 10_000 && outcomes.loaded > 100, "{outcomes:?}");
}

#[test]
fn snapshots_altered_in_many_places_are_refused_or_behave() {
    let (seed, mut outcomes) = (11, Outcomes::default());
    let mut random = Random(seed);
    let bases = bases();
    for round in 0..30_000 {
        let (encoding_version, mut record) = random.choose(&bases).clone();
        let places = 1 + random.below(4);
        for _ in 0..places {
            let index = random.below(record.0.len());
            record.0[index] = anything(&record.0[index], &mut random);
        }
        outcomes.try_record(&record, encoding_version, &format!("seed {seed}, round {round}"));
    }
    println!("{outcomes:?}");
    assert!(outcomes.refused > 10_000 && outcomes.loaded > 100, "{outcomes:?}");
}

#[test]
fn altered_headers_are_refused_or_behave() {
    let mut outcomes = Outcomes::default();
    for (base, (encoding_version, record)) in bases().into_iter().enumerate() {
        let chain = load(&record, encoding_version);
        let newest = piece(&chain, 0).unwrap().data.into_owned();
        for (shape, header) in
            [newest.clone(), with_old_layers(&newest), with_old_chain(&newest)].iter().enumerate()
        {
            let read = from_header(header, ANY).unwrap();
            assert_eq!(piece(&read, 0).unwrap().data[20..], newest[20..], "base {base}, shape {shape}");
            for length in 0..header.len() {
                // Four bytes short, the newest header of a single layer has the length of an older shape.
                if (shape, length) != (0, 69) {
                    assert!(from_header(&header[..length], ANY).is_err(), "{length}");
                }
                outcomes
                    .try_header(&header[..length], &format!("base {base}, shape {shape}, cut at {length}"));
            }
            assert!(from_header(&[header, &[0][..]].concat(), ANY).is_err());
            for index in 0..header.len() {
                for value in
                    [0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0xf0, 0xff, header[index] ^ 1, header[index] + 1]
                {
                    let mut altered = header.clone();
                    altered[index] = value;
                    outcomes.try_header(
                        &altered,
                        &format!("base {base}, shape {shape}, byte {index} is {value}"),
                    );
                }
            }
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes.refused > 10_000 && outcomes.loaded > 1_000, "{outcomes:?}");
}

/// The header as 2.2.0 wrote it: capacities of 32 bits.
fn with_old_layers(newest: &[u8]) -> Vec<u8> {
    let layers = newest[20..].chunks(53).flat_map(|layer| [&layer[..48], &layer[52..]].concat());
    newest[..20].iter().copied().chain(layers).collect()
}

/// The header as 2.0 wrote it: no growth.
fn with_old_chain(newest: &[u8]) -> Vec<u8> {
    let mut header = with_old_layers(newest);
    header.drain(16..20);
    header
}
