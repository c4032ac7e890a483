//! The filters in tests/fixtures, of other modules and of releases of this one: they load, reply as recorded, and
//! accept further items.

use everbloom::Format;
use everbloom_filter::{AddError, Filter, Growth, Policy};
use everbloom_format::DataType;
use everbloom_format::DecodeError;
use everbloom_format::filter::{chunk, from_blob};
use everbloom_format::valkeybloom::encode_blob;
use everbloom_format::value::from_header;

use crate::support::fixtures::{Case, cases};
use crate::support::make::{ANY, add, contains};
use crate::support::rdb::Payload;
use crate::support::saved::{complete, loaded_as, saved};
use crate::{redisbloom, valkeybloom};

/// The producer whose filters do not show their hash.
const OTHER_HASH: &str = "redisbloom-1.1.1";

/// Returns the recorded filters of the producers whose names begin with `prefix`.
pub fn recorded(prefix: &str) -> Vec<(Case, Payload, Filter)> {
    cases(prefix)
        .into_iter()
        .map(|case| {
            let payload = Payload::read(&case.payload);
            let filter = load(&case, &payload, Some(payload.encoding_version));
            (case, payload, filter)
        })
        .collect()
}

/// Returns the filter from a record of it, which the producer of the case or this module wrote.
fn load(case: &Case, payload: &Payload, version: Option<i32>) -> Filter {
    let format = Format::ALL.into_iter().find(|format| DataType::of(*format).name == payload.type_name);
    let mut filter = loaded_as(format.unwrap(), version, &payload.record, ANY).unwrap();
    if case.producer == OTHER_HASH {
        filter.assume_redisbloom_1_1();
    }
    filter
}

#[test]
fn every_filter_replies_as_recorded() {
    for (case, _, filter) in recorded("") {
        assert!(case.members.iter().all(|item| contains(&filter, item)), "{}", case.key);
        let replies = case.probes.iter().map(|item| if contains(&filter, item) { '1' } else { '0' });
        assert_eq!(replies.collect::<String>(), case.probe_replies(), "{}", case.key);
    }
}

#[test]
fn every_filter_grows_without_a_false_negative() {
    for (case, mut payload, mut filter) in recorded("") {
        let layers = filter.layer_count();
        filter.set_now(0);
        let mut members = case.members.clone();
        for number in 0.. {
            let item = format!("more:{number}").into_bytes();
            match add(&mut filter, &item) {
                // A saturating filter is never full, and a table takes all further items.
                Ok(_)
                    if number > 1000
                        && (filter.growth() == Growth::Saturating || filter.table().is_some()) =>
                {
                    break;
                }
                Ok(_) => members.push(item),
                Err(error) => {
                    assert_eq!((error, filter.growth()), (AddError::Full, Growth::Fixed), "{}", case.key);
                    assert_eq!((filter.items(), filter.layer_count()), (filter.capacity_items(), layers));
                    break;
                }
            }
            let added = filter.layer_count() - layers;
            if added == 2 && filter.layers()[layers + 1].is_full() {
                break;
            }
        }
        assert!(members.len() > case.members.len() && members.iter().all(|item| contains(&filter, item)));
        payload.record = saved(&filter);
        let again = load(&case, &payload, None);
        assert_eq!(saved(&again), payload.record, "{}", case.key);
        assert!(members.iter().all(|item| contains(&again, item)), "{}", case.key);
        match filter.format() {
            Format::RedisBloom => redisbloom::assert_grown(&filter, layers, payload.encoding_version),
            Format::ValkeyBloom => valkeybloom::assert_grown(&filter, payload.encoding_version),
            Format::Everbloom => assert_eq!(payload.encoding_version, 1),
        }
    }
}

#[test]
fn every_filter_of_another_format_loads_within_its_size_and_not_below() {
    for (case, payload, filter) in
        recorded("").into_iter().filter(|(.., of)| of.format() != Format::Everbloom)
    {
        let (record, header) =
            (saved(&filter), chunk(&filter, Some(filter.dump_as(7)), 0).unwrap().unwrap().data);
        let policy = filter.policy();
        let blob = if let Policy::ValkeyBloom(policy) = policy {
            Some(encode_blob(policy, filter.layers()).unwrap())
        } else {
            None
        };
        let needed_bytes = filter.size_bytes();
        for limit_bytes in [needed_bytes, needed_bytes - 1] {
            let too_large = DecodeError::TooLarge { needed_bytes, limit: limit_bytes.into() };
            let expected = if limit_bytes < needed_bytes { Some(too_large) } else { None };
            let outcomes = [
                loaded_as(filter.format(), None, &record, limit_bytes),
                loaded_as(filter.format(), Some(payload.encoding_version), &payload.record, limit_bytes),
                from_header(&header, &limit_bytes).map(complete),
                blob.as_ref().map_or_else(
                    || from_header(&header, &limit_bytes).map(complete),
                    |blob| from_blob(blob, &limit_bytes),
                ),
            ];
            assert_eq!(outcomes.map(Result::err), [expected; 4], "{}", case.key);
        }
    }
}
