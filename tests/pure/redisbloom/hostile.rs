//! Bytes that no release wrote: refused, or a filter that works.

use everbloom_filter::filter::policy::redisbloom::RedisBloomOptions;
use everbloom_filter::limits::LAYERS_MAX;
use everbloom_filter::{Filter, Layout};
use everbloom_format::DecodeError;

use super::{chunk, from_header, load, read};
use crate::allocations::largest_allocation;
use crate::support::hostile::{Outcomes, edges};
use crate::support::make::{ANY, add, redisbloom};
use crate::support::saved::saved;
use crate::support::{Field, Record};

/// Largest size of a filter in these tests.
pub(crate) const LIMIT_BYTES: u64 = 64 << 10;
/// The largest allocation: the structs of the most layers. Their arrays are allocated one by one, and are smaller.
const LARGEST_MAX_BYTES: usize = LAYERS_MAX * 128;
/// Most probes of a layer.
const PROBES_MAX: u32 = 2048;

/// Returns small filters with the options of commands and of older releases, each with the encoding version to read it
/// by.
pub(crate) fn bases() -> Vec<(i32, Record)> {
    let mut bases = Vec::new();
    for (encoding_version, options) in [(4, 5), (4, 13), (4, 0), (4, 6), (3, 4), (2, 0), (1, 0), (0, 0)] {
        let mut chain = redisbloom(0.1, 6, RedisBloomOptions::from_bits(options).unwrap(), 2);
        // A fixed filter, and one whose capacity is the logarithm of its bits, have only one layer.
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

/// Sets the number of bits of each layer to 0, as before 2.2: the exponent determines it.
fn as_before_2_2(record: &mut Record) {
    for layer in record.0[4..].chunks_mut(8) {
        assert!(layer[5] != Field::Unsigned(0));
        layer[4] = Field::Unsigned(0);
    }
}

/// Removes bits and exponent, which follow from the capacity, and truncates the arrays to that size.
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

/// Judges an outcome, and checks the size of the largest allocation.
fn judge(outcomes: &mut Outcomes, read: impl FnOnce() -> Result<Filter, DecodeError>, context: &str) {
    let (outcome, largest_bytes) = largest_allocation(read);
    assert!(largest_bytes <= LARGEST_MAX_BYTES, "{context}: {largest_bytes} bytes at once");
    for layer in outcome.iter().flat_map(Filter::layers) {
        assert!((1..=PROBES_MAX).contains(&layer.layout().probes()), "{context}");
        let Layout::Modulo(modulo) = layer.layout() else { panic!("{context}") };
        assert!(modulo.modulus().divisor() <= layer.bits().size_bits(), "{context}");
    }
    outcomes.judge(outcome, &|| context.to_owned());
}

#[test]
fn changed_snapshots_are_refused_or_valid() {
    let mut outcomes = Outcomes::default();
    for (base, (encoding_version, record)) in bases().into_iter().enumerate() {
        for index in 0..record.0.len() {
            for edge in edges(&record.0[index]) {
                let mut altered = record.clone();
                let context = format!("base {base}, field {index} is {edge:?}");
                altered.0[index] = edge;
                judge(&mut outcomes, || read(&altered, encoding_version, LIMIT_BYTES), &context);
            }
            // Truncated before the field, without the field, with the field twice.
            let context = format!("base {base}, field {index} out of place");
            let mut altered = [(); 3].map(|()| record.clone());
            altered[0].0.truncate(index);
            altered[1].0.remove(index);
            altered[2].0.insert(index, record.0[index].clone());
            for altered in altered {
                judge(&mut outcomes, || read(&altered, encoding_version, LIMIT_BYTES), &context);
            }
        }
        // Read with the wrong encoding.
        for wrong in [i32::MIN, -1, 0, 1, 2, 3, 4, 5, i32::MAX] {
            let context = format!("base {base} as encoding {wrong}");
            judge(&mut outcomes, || read(&record, wrong, LIMIT_BYTES), &context);
        }
    }
    outcomes.assert_at_least(10_000, 100);
}

#[test]
fn changed_headers_are_refused_or_valid() {
    let mut outcomes = Outcomes::default();
    for (base, (encoding_version, record)) in bases().into_iter().enumerate() {
        let chain = load(&record, encoding_version);
        let newest = chunk(&chain, 0).unwrap().data.into_owned();
        for (shape, header) in
            [newest.clone(), with_old_layers(&newest), with_old_chain(&newest)].iter().enumerate()
        {
            let read = from_header(header, ANY).unwrap();
            assert_eq!(chunk(&read, 0).unwrap().data[20..], newest[20..], "base {base}, shape {shape}");
            for length in 0..header.len() {
                // Without its last four bytes, the newest header of a single layer has the length of an older shape.
                if (shape, length) != (0, 69) {
                    assert!(from_header(&header[..length], ANY).is_err(), "{length}");
                }
                let context = format!("base {base}, shape {shape}, cut at {length}");
                judge(&mut outcomes, || from_header(&header[..length], LIMIT_BYTES), &context);
            }
            assert!(from_header(&[header, &[0][..]].concat(), ANY).is_err());
            for index in 0..header.len() {
                for value in
                    [0, 1, 2, 0x3f, 0x40, 0x7f, 0x80, 0xf0, 0xff, header[index] ^ 1, header[index] + 1]
                {
                    let mut altered = header.clone();
                    altered[index] = value;
                    let context = format!("base {base}, shape {shape}, byte {index} is {value}");
                    judge(&mut outcomes, || from_header(&altered, LIMIT_BYTES), &context);
                }
            }
        }
    }
    outcomes.assert_at_least(10_000, 1_000);
}

/// Returns the header as 2.2.0 wrote it: capacities of 32 bits.
fn with_old_layers(newest: &[u8]) -> Vec<u8> {
    let layers = newest[20..].chunks(53).flat_map(|layer| [&layer[..48], &layer[52..]].concat());
    newest[..20].iter().copied().chain(layers).collect()
}

/// Returns the header as 2.0 wrote it: no growth.
fn with_old_chain(newest: &[u8]) -> Vec<u8> {
    let mut header = with_old_layers(newest);
    header.drain(16..20);
    header
}
