//! Values of RedisBloom's other types: read, kept, and written back with the same fields.

use everbloom_filter::Blocks as _;
use everbloom_format::carried::{Carried, CarriedType};
use everbloom_format::payload::EncodedFields;
use everbloom_format::{DecodeError, Sink as _};

use crate::support::Moves;
use crate::support::fixtures::{CarriedCase, carried_cases};
use crate::support::rdb::{Field, Payload, Record};

fn type_named(name: &str) -> CarriedType {
    CarriedType::ALL.into_iter().find(|carried_type| carried_type.name() == name).unwrap()
}

fn loaded(carried_type: CarriedType, record: &Record) -> Result<Carried, DecodeError> {
    let mut reader = record.reader();
    let carried = Carried::load(carried_type, 0, &mut reader)?;
    if reader.is_at_end() { Ok(carried) } else { Err(DecodeError::Invalid("rest")) }
}

fn saved(carried: &Carried) -> Record {
    let mut record = Record::default();
    carried.save(&mut record);
    record
}

#[test]
fn recorded_values_are_written_back_with_the_same_fields() {
    let cases = carried_cases();
    assert_eq!(cases.len(), 29);
    for CarriedCase { key, type_name, payload } in cases {
        let payload = Payload::read(&payload);
        assert_eq!((&payload.type_name, payload.encoding_version), (&type_name, 0), "{key}");
        let carried = loaded(type_named(&type_name), &payload.record).unwrap();
        assert_eq!(carried.carried_type().name(), type_name);
        assert_eq!(saved(&carried), payload.record, "{key}");
        let mut copy = carried.try_clone().unwrap();
        assert_eq!((saved(&copy), copy.bytes()), (payload.record.clone(), carried.bytes()), "{key}");
        copy.move_block(0, &Moves);
        assert_eq!(copy.bytes(), carried.bytes(), "{key}");
        // The payload for RESTORE has the same fields, and takes no more memory. Its checksum is compared by servers.
        let restored = carried.payload().unwrap();
        assert_eq!(restored.capacity(), restored.len(), "{key}");
        let restored = Payload::read(&restored);
        assert_eq!((&restored.type_name, &restored.record), (&payload.type_name, &payload.record), "{key}");
        assert_eq!(carried.payload().unwrap()[1], 0x81, "{key}");
    }
}

/// The checksum of the servers, of the text that their tests use.
#[test]
fn the_checksum_is_that_of_servers() {
    let record =
        Record(vec![Field::Unsigned(1), Field::Unsigned(1), Field::Unsigned(0), Field::Bytes(vec![0; 4])]);
    let payload = loaded(CarriedType::CountMin, &record).unwrap().payload().unwrap();
    let (bytes, checksum) = payload.split_at(payload.len() - 8);
    // Type, id, three integers of two bytes, a string, the end, and the version of the format. Small numbers take a byte.
    assert_eq!(bytes.len(), 1 + 9 + 3 * 2 + 6 + 1 + 2);
    let crc = bytes.iter().fold(0u64, |crc, byte| {
        let crc = crc ^ u64::from(*byte);
        (0..8).fold(crc, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x95AC_9329_AC4B_C9B5 } else { crc >> 1 })
    });
    assert_eq!(crc.to_le_bytes(), checksum);
}

/// Servers write each length in the shortest form, and read any.
#[test]
fn lengths_have_the_shortest_form() {
    for (length, form) in [
        (0u64, &[0][..]),
        (0x3f, &[0x3f]),
        (0x40, &[0x40, 0x40]),
        (0x3fff, &[0x7f, 0xff]),
        (0x4000, &[0x80, 0, 0, 0x40, 0]),
        (0xffff_ffff, &[0x80, 0xff, 0xff, 0xff, 0xff]),
        (0x1_0000_0000, &[0x81, 0, 0, 0, 1, 0, 0, 0, 0]),
    ] {
        let mut fields = EncodedFields::default();
        fields.unsigned(length);
        let payload = fields.payload("TopK-TYPE", 3).unwrap();
        // The type of modules, the name and version, the field with its type, the end, the version and the checksum.
        let bytes = &payload[1 + 9 + 1..payload.len() - 1 - 2 - 8];
        assert_eq!(bytes, form, "{length}");
        assert_eq!(Payload::read(&payload).encoding_version, 3);
    }
}

/// Every field is left out, repeated, replaced by one of another type, and set to extreme values: an error, or a value that
/// is written back as it was read.
#[test]
fn altered_fields_are_refused_or_kept() {
    let (mut refused, mut kept) = (0, 0);
    let mut check = |carried_type, record: &Record| match loaded(carried_type, record) {
        Ok(carried) => {
            assert_eq!(saved(&carried), *record);
            kept += 1;
        }
        Err(_) => refused += 1,
    };
    for CarriedCase { type_name, payload, .. } in carried_cases() {
        let (carried_type, record) = (type_named(&type_name), Payload::read(&payload).record);
        for place in 0..record.0.len() {
            let mut shorter = record.clone();
            shorter.0.remove(place);
            check(carried_type, &shorter);
            check(carried_type, &Record(record.0[..place].to_vec()));
            let others = [
                Field::Unsigned(0),
                Field::Unsigned(1 << 32),
                Field::Unsigned(u64::MAX),
                Field::Double(f64::NAN),
                Field::Double(f64::NEG_INFINITY),
                Field::Bytes(Vec::new()),
                Field::Bytes(vec![0; 3]),
            ];
            for other in others {
                let mut altered = record.clone();
                altered.0[place] = other;
                check(carried_type, &altered);
            }
        }
    }
    assert!(refused > 1000 && kept > 500, "{refused}, {kept}");
}

#[test]
fn values_of_other_encodings_and_impossible_sizes_are_refused() {
    let record = |fields: &[Field]| Record(fields.to_vec());
    let [one, many] = [1, 1 << 33].map(Field::Unsigned);
    let counters = Field::Bytes(vec![0; 4]);
    let good = record(&[one.clone(), one.clone(), one.clone(), counters.clone()]);
    assert!(loaded(CarriedType::CountMin, &good).is_ok());
    let of_version = Carried::load(CarriedType::CountMin, 1, &mut good.reader()).unwrap_err();
    assert_eq!(of_version.to_string().split(':').next(), Some("unsupported encoding version 1"));
    // The product of width and depth wraps in RedisBloom.
    let wrapping = record(&[many.clone(), many.clone(), one.clone(), Field::Bytes(Vec::new())]);
    assert!(loaded(CarriedType::CountMin, &wrapping).is_err());
    // k is bounded by the heap, whose bytes must be there.
    let (decay, block) = (Field::Double(0.9), Field::Bytes(vec![0; 8]));
    let huge = record(&[many.clone(), one.clone(), one.clone(), decay, block, Field::Bytes(vec![0; 24])]);
    assert!(loaded(CarriedType::TopK, &huge).is_err());
    // A t-digest ends where its file ends.
    let mut fields = vec![Field::Double(100.0); 3];
    fields.extend([many.clone(), many, one.clone(), one, Field::Double(0.0), Field::Double(0.0)]);
    assert_eq!(loaded(CarriedType::TDigest, &Record(fields)).unwrap_err(), DecodeError::Truncated);
}
