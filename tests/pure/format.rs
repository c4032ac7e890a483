//! everbloom's own encoding: golden bytes read by an independent decoder, round trips, and hostile bytes.

use everbloom::bloom::limits::{LAYER_MAX_BYTES, LAYERS_MAX};
use everbloom::bloom::{Chain, Everbloom, Filter, Format, Growth, ItemHash, UnknownMemory, hash128};
use everbloom::format::arrays::CHUNK_BYTES;
use everbloom::format::everbloom::ENCODING_VERSION;
use everbloom::format::everbloom::header::{CHAIN_HEADER_BYTES, LAYER_HEADER_BYTES, encode};
use everbloom::format::filter::{from_header, load};
use everbloom::format::{DecodeError, Sink, Source, pieces, snapshot};

/// No limit.
const ANY: u64 = u64::MAX;

/// A snapshot in memory.
#[derive(Clone, Debug, Default, PartialEq)]
struct Record(Vec<Vec<u8>>);

impl Sink for Record {
    fn unsigned(&mut self, value: u64) {
        panic!("{value}: everbloom's own encoding has only strings");
    }

    fn double(&mut self, value: f64) {
        panic!("{value}: everbloom's own encoding has only strings");
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(bytes.to_vec());
    }
}

struct Reader(std::vec::IntoIter<Vec<u8>>);

impl Source for Reader {
    type Bytes = Vec<u8>;

    fn unsigned(&mut self) -> Result<u64, DecodeError> {
        Err(DecodeError::Truncated)
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        Err(DecodeError::Truncated)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        self.0.next().ok_or(DecodeError::Truncated)
    }
}

fn saved(chain: &Chain) -> Record {
    let mut record = Record::default();
    snapshot::save(&encode(chain), chain, &mut record, UnknownMemory);
    record
}

fn loaded(record: &Record, limit_bytes: u64) -> Result<Chain, DecodeError> {
    let mut reader = Reader(record.0.clone().into_iter());
    match load(Format::Everbloom, ENCODING_VERSION, &mut reader, &limit_bytes)? {
        Filter::Everbloom(chain) => Ok(chain),
        other => panic!("a filter of another kind: {other:?}"),
    }
}

fn filter(error_rate: f64, capacity_items: u64, growth: Growth, items: u64) -> Chain {
    let mut chain = Chain::reserve(Everbloom { error_rate, capacity_items, growth }, &ANY).unwrap();
    for item in 0..items {
        chain.add(hash128(&item.to_le_bytes()), &ANY).unwrap();
    }
    chain
}

fn samples() -> Vec<Chain> {
    let scaling = Growth::Scaling { expansion: 2 };
    vec![
        filter(0.01, 100, scaling, 0),
        filter(0.01, 100, scaling, 60),
        filter(0.001, 10, scaling, 1000),
        filter(0.25, 1, Growth::Scaling { expansion: 1 }, 50),
        filter(0.01, 60, Growth::Saturating, 400),
        filter(1e-6, 500, Growth::Fixed, 100),
        filter(0.01, 3_000_000, Growth::Fixed, 5000),
    ]
}

/// An independent reading of the header, field by field as docs/formats.md has it.
fn assert_header_is_as_documented(chain: &Chain, header: &[u8]) {
    let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    assert_eq!(&header[..8], b"evbl\x01\x00\x01\x00");
    assert_eq!(u32_at(8) as usize, chain.layers().len());
    assert_eq!(u32_at(12), chain.parameters().growth.expansion());
    assert_eq!(f64::from_le_bytes(header[16..24].try_into().unwrap()), chain.parameters().error_rate);
    assert_eq!(u64_at(24), chain.parameters().capacity_items);
    assert_eq!(header.len(), 32 + 40 * chain.layers().len());
    for (index, layer) in chain.layers().iter().enumerate() {
        let at = 32 + 40 * index;
        let (layout, lines) = match layer.shape().layout {
            everbloom::bloom::Layout::Scattered => (1, 0),
            everbloom::bloom::Layout::Paged { lines } => (2, lines),
        };
        assert_eq!(header[at..at + 4], [layout, lines, layer.shape().probes as u8, 1]);
        let saturates = chain.parameters().growth == Growth::Saturating;
        assert_eq!(u32_at(at + 4), u32::from(saturates));
        assert_eq!(u64_at(at + 8), layer.shape().size_bits);
        assert_eq!(u64_at(at + 16), layer.shape().capacity_items);
        assert_eq!(u64_at(at + 24), layer.counts().items);
        assert_eq!(u64_at(at + 32), layer.counts().set_bits);
    }
}

#[test]
fn a_snapshot_is_the_documented_header_and_the_bits_in_chunks() {
    for chain in samples() {
        let record = saved(&chain);
        assert_header_is_as_documented(&chain, &record.0[0]);
        let arrays: Vec<&[u8]> =
            chain.layers().iter().flat_map(|layer| layer.bits().bytes().chunks(CHUNK_BYTES)).collect();
        assert_eq!(record.0.len(), 1 + arrays.len());
        for (string, array) in record.0[1..].iter().zip(arrays) {
            let clear = array.iter().all(|byte| *byte == 0);
            assert!(if clear { string.is_empty() } else { string == array });
        }
    }
}

#[test]
fn a_snapshot_loads_to_the_same_filter() {
    for chain in samples() {
        let record = saved(&chain);
        let again = loaded(&record, ANY).unwrap();
        assert_eq!(again.parameters(), chain.parameters());
        assert_eq!(saved(&again), record);
        let items = (0..2 * chain.items()).map(|item| hash128(&item.to_le_bytes()));
        items.for_each(|item| assert_eq!(again.contains(item), chain.contains(item)));
    }
}

#[test]
fn a_large_array_is_saved_in_bounded_chunks() {
    let chain = filter(0.01, 30_000_000, Growth::Fixed, 10);
    let record = saved(&chain);
    assert!(record.0.len() > 2, "the array spans several chunks");
    assert!(record.0.iter().all(|string| string.len() <= CHUNK_BYTES));
    assert_eq!(saved(&loaded(&record, ANY).unwrap()), record);
}

#[test]
fn a_filter_loads_within_the_limit_it_was_made_under_and_not_a_byte_less() {
    for chain in samples() {
        let record = saved(&chain);
        let header = pieces::piece(&chain, 0, || encode(&chain)).unwrap().unwrap().data;
        let needed_bytes = chain.size_bytes();
        let limit_bytes = needed_bytes - 1;
        assert!(loaded(&record, needed_bytes).is_ok());
        assert!(from_header(&header, &needed_bytes).is_ok());
        let refused = DecodeError::TooLarge { needed_bytes, limit_bytes };
        assert_eq!(loaded(&record, limit_bytes).unwrap_err(), refused);
        assert_eq!(from_header(&header, &limit_bytes).unwrap_err(), refused);
    }
}

#[test]
fn a_header_has_4096_layers_at_most() {
    let one = saved(&filter(0.01, 100, Growth::default(), 0));
    let with_layers = |layers: usize| {
        let (chain, layer) = one.0[0].split_at(CHAIN_HEADER_BYTES);
        let mut header = [chain, &layer.repeat(layers)].concat();
        header[8..12].copy_from_slice(&(layers as u32).to_le_bytes());
        let arrays = vec![Vec::new(); layers];
        loaded(&Record([vec![header], arrays].concat()), ANY)
    };
    assert_eq!(with_layers(LAYERS_MAX).unwrap().layers().len(), LAYERS_MAX);
    for layers in [0, LAYERS_MAX + 1] {
        assert_eq!(with_layers(layers).unwrap_err(), DecodeError::Invalid("layer count"));
    }
}

#[test]
fn a_snapshot_cut_anywhere_is_refused() {
    for chain in samples() {
        let record = saved(&chain);
        for fields in 0..record.0.len() {
            assert!(loaded(&Record(record.0[..fields].to_vec()), ANY).is_err());
        }
        for field in 0..record.0.len() {
            for length in (1..record.0[field].len()).take(600) {
                let mut cut = record.clone();
                cut.0[field].truncate(length);
                assert!(loaded(&cut, ANY).is_err(), "field {field} cut to {length}");
            }
        }
    }
}

/// Values at the edges of every width a field has.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    50,
    51,
    63,
    64,
    127,
    128,
    255,
    256,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 52,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
/// Floats where a rate is not one.
const EDGE_FLOATS: [f64; 9] = [0.0, -0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324];

/// Every field of the header: offset in its part and width in bytes.
const CHAIN_FIELDS: [(usize, usize); 7] = [(0, 4), (4, 2), (6, 2), (8, 4), (12, 4), (16, 8), (24, 8)];
const LAYER_FIELDS: [(usize, usize); 9] =
    [(0, 1), (1, 1), (2, 1), (3, 1), (4, 4), (8, 8), (16, 8), (24, 8), (32, 8)];

/// What is left of an altered filter must behave: hold what is added, grow, save and load.
fn assert_behaves(mut chain: Chain) {
    let limit_bytes = chain.size_bytes().saturating_add(1 << 20);
    for item in 0..50u64 {
        let item = ItemHash { h1: item.wrapping_mul(0x9e37_79b9_7f4a_7c15), h2: !item };
        if chain.add(item, &limit_bytes).is_ok() {
            assert!(chain.contains(item));
        }
    }
    let record = saved(&chain);
    assert_eq!(saved(&loaded(&record, ANY).unwrap()), record);
}

#[test]
fn a_header_with_any_field_at_any_edge_is_refused_or_behaves() {
    let mut refused = 0;
    let mut accepted = 0;
    let limit_bytes = 64 << 20;
    for chain in samples().into_iter().take(6) {
        let record = saved(&chain);
        let fields = CHAIN_FIELDS.iter().copied().chain((0..chain.layers().len()).flat_map(|layer| {
            LAYER_FIELDS.map(|(at, width)| (CHAIN_HEADER_BYTES + LAYER_HEADER_BYTES * layer + at, width))
        }));
        for (at, width) in fields {
            for value in EDGES.iter().copied().chain(EDGE_FLOATS.map(f64::to_bits)) {
                let mut altered = record.clone();
                altered.0[0][at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                match loaded(&altered, limit_bytes) {
                    Ok(chain) => {
                        accepted += 1;
                        assert_behaves(chain);
                    }
                    Err(_) => refused += 1,
                }
            }
        }
    }
    assert!(refused > 1000 && accepted > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn impossible_headers_are_refused_by_name() {
    let record = saved(&filter(0.01, 100, Growth::default(), 60));
    let refusal = |at: usize, bytes: &[u8]| {
        let mut altered = record.clone();
        altered.0[0][at..at + bytes.len()].copy_from_slice(bytes);
        loaded(&altered, ANY).unwrap_err()
    };
    assert_eq!(refusal(0, b"x"), DecodeError::Invalid("magic"));
    assert_eq!(refusal(4, &[2]), DecodeError::Unsupported { what: "version", got: 2 });
    assert_eq!(refusal(6, &[9]), DecodeError::Unsupported { what: "kind", got: 9 });
    assert_eq!(refusal(8, &[2]), DecodeError::Invalid("layer count"));
    assert_eq!(refusal(8, &(LAYERS_MAX as u32 + 1).to_le_bytes()), DecodeError::Invalid("layer count"));
    assert_eq!(refusal(16, &f64::NAN.to_le_bytes()), DecodeError::Invalid("error rate"));
    assert_eq!(refusal(24, &0u64.to_le_bytes()), DecodeError::Invalid("capacity"));
    assert_eq!(refusal(32, &[3]), DecodeError::Unsupported { what: "layout", got: 3 });
    assert_eq!(refusal(33, &[1]), DecodeError::Invalid("lines"));
    assert_eq!(refusal(34, &[0]), DecodeError::Invalid("probes"));
    assert_eq!(refusal(34, &[51]), DecodeError::Invalid("probes"));
    assert_eq!(refusal(35, &[2]), DecodeError::Unsupported { what: "hash", got: 2 });
    assert_eq!(refusal(36, &[1]), DecodeError::Unsupported { what: "reserved field", got: 1 });
    assert_eq!(refusal(40, &63u64.to_le_bytes()), DecodeError::Invalid("size in bits"));
    assert_eq!(refusal(40, &(LAYER_MAX_BYTES * 8 + 64).to_le_bytes()), DecodeError::Invalid("size in bits"));
    assert_eq!(refusal(56, &101u64.to_le_bytes()), DecodeError::Invalid("items"));
    // More items than bits are never counted, so no layer is for more.
    assert_eq!(refusal(48, &1025u64.to_le_bytes()), DecodeError::Invalid("capacity"));
    assert_eq!(refusal(64, &1u64.to_le_bytes()), DecodeError::Invalid("set bits"));
}

#[test]
fn only_a_filter_of_fixed_size_saturates() {
    let header = |chain: &Chain| saved(chain);
    let refusal = |record: &Record, changes: &[(usize, &[u8])]| {
        let mut altered = record.clone();
        for (at, bytes) in changes {
            altered.0[0][*at..at + bytes.len()].copy_from_slice(bytes);
        }
        loaded(&altered, ANY).map(|chain| chain.parameters().growth)
    };
    let saturated = header(&filter(0.01, 60, Growth::Saturating, 400));
    assert_eq!(refusal(&saturated, &[]), Ok(Growth::Saturating));
    let unsupported = |got| Err(DecodeError::Unsupported { what: "reserved field", got });
    for flags in [2u32, 3, 1 << 31, u32::MAX] {
        assert_eq!(refusal(&saturated, &[(36, &flags.to_le_bytes())]), unsupported(flags.into()));
    }
    // A filter that grows.
    assert_eq!(refusal(&saturated, &[(12, &2u32.to_le_bytes())]), unsupported(1));
    // Without the flag it holds more than it can.
    assert_eq!(refusal(&saturated, &[(36, &0u32.to_le_bytes())]), Err(DecodeError::Invalid("items")));
    let size_bits = u64::from_le_bytes(saturated.0[0][40..48].try_into().unwrap());
    assert_eq!(refusal(&saturated, &[(56, &size_bits.to_le_bytes())]), Ok(Growth::Saturating));
    let too_many = (size_bits + 1).to_le_bytes();
    assert_eq!(refusal(&saturated, &[(56, &too_many)]), Err(DecodeError::Invalid("items")));
    // Several layers, of which one or all say so.
    let grown = header(&filter(0.001, 10, Growth::Scaling { expansion: 2 }, 1000));
    let fixed: (usize, &[u8]) = (12, &[0; 4]);
    let flag: &[u8] = &[1, 0, 0, 0];
    assert_eq!(refusal(&grown, &[fixed, (36, flag)]), unsupported(0));
    let all: Vec<(usize, &[u8])> = (36..grown.0[0].len()).step_by(40).map(|at| (at, flag)).collect();
    assert_eq!(refusal(&grown, &[&[fixed], &all[..]].concat()), Ok(Growth::Saturating));
}

#[test]
fn a_saturated_count_ends_where_a_decoder_takes_it() {
    // A header that counts as many items as bits, whose bits are yet to come, as that of a dump.
    let mut altered = saved(&filter(0.01, 60, Growth::Saturating, 0));
    let size_bits = u64::from_le_bytes(altered.0[0][40..48].try_into().unwrap());
    altered.0[0][56..64].copy_from_slice(&size_bits.to_le_bytes());
    assert_behaves(loaded(&altered, ANY).unwrap());
    let mut chain = loaded(&altered, ANY).unwrap();
    chain.add(hash128(b"one more"), &ANY).unwrap();
    assert_eq!(chain.items(), size_bits);
}

#[test]
fn a_source_without_floats_has_none() {
    assert_eq!(Reader(vec![vec![0; 4]].into_iter()).float(), Err(DecodeError::Truncated));
}
