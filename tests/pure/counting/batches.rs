//! Many items in one command against the same items one by one.

use everbloom::bloom::{Added, Filter, NoPrefetch};

use crate::support::Random;
use super::{ANY, chain, reserve};

#[test]
fn many_items_at_once_are_added_asked_for_and_deleted_as_one_by_one() {
    let seed = 0x0062_6174_6368;
    for (error_rate, capacity, expansion) in
        [(0.01, 100, 2), (0.01, 900_000, 2), (0.01, 2_500_000, 2), (1e-6, 700_000, 1), (0.001, 1_000_000, 0)]
    {
        let mut random = Random(seed);
        let (mut batched, mut single) =
            (reserve(error_rate, capacity, expansion), chain(error_rate, capacity, expansion));
        for round in 0..400 {
            let items: Vec<Vec<u8>> =
                (0..random.below(130)).map(|_| random.below(4000).to_string().into_bytes()).collect();
            let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
            let context = format!("seed {seed}, round {round}, {error_rate} at {capacity}");
            let mut answers = Vec::new();
            let expected: Vec<bool> = if round % 3 == 2 {
                let Filter::Counting(chain) = &mut batched else { panic!("another kind") };
                chain.remove_many(&items, NoPrefetch, |is_deleted| answers.push(is_deleted));
                items.iter().map(|item| single.remove(single.digest(item))).collect()
            } else {
                batched.add_many(&items, &ANY, NoPrefetch, |outcome| {
                    answers.push(outcome == Ok(Added::New));
                    true
                });
                items.iter().map(|item| single.add(single.digest(item), &ANY) == Ok(Added::New)).collect()
            };
            assert_eq!(answers, expected, "{context}");
            let mut found = Vec::new();
            batched.contains_many(&items, NoPrefetch, |is_in| found.push(is_in));
            assert!(items.iter().map(|item| single.contains(single.digest(item))).eq(found), "{context}");
        }
        let bytes = single.layers().iter().map(|layer| everbloom::bloom::Storage::bytes(layer.storage()));
        assert!(batched.storages().map(|storage| storage.bytes()).eq(bytes));
        assert_eq!(batched.items(), single.items());
    }
}
