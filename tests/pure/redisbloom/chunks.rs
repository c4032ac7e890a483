//! Chunks of a dump: their positions, and refusals.

use everbloom::bloom::Filter;
use everbloom::bloom::filter::policy::redisbloom::RedisBloomOptions;
use everbloom::format::CHUNK_BYTES;
use everbloom::format::chunks::ChunkError;

use super::{add, chunk, from_header, load_chunk};
use crate::support::make::{ANY, redisbloom};
use crate::support::saved::saved;

/// Returns a filter with three layers of 8, 16 and 40 bytes.
fn small() -> Filter {
    let mut chain = redisbloom(0.2, 10, RedisBloomOptions::SCALING, 2);
    for i in 0..40 {
        add(&mut chain, format!("{i}").as_bytes());
    }
    let sizes: Vec<u64> = chain.layers().iter().map(|layer| layer.bits().size_bytes()).collect();
    assert_eq!(sizes, [8, 16, 40]);
    chain
}

#[test]
fn chunks_follow_each_other_and_begin_anywhere() {
    let chain = small();
    let ends: Vec<u64> =
        std::iter::successors(Some(0), |iterator| chunk(&chain, *iterator).map(|chunk| chunk.next_iterator))
            .collect();
    assert_eq!(ends, [0, 1, 9, 25, 65]);
    assert_eq!(chunk(&chain, 65), None);
    assert_eq!(chunk(&chain, u64::MAX), None);
    // From the middle of a layer to its end.
    let from_the_middle = chunk(&chain, 12).unwrap();
    assert_eq!(from_the_middle.next_iterator, 25);
    assert_eq!(*from_the_middle.data, chain.layers()[1].bits().bytes()[3..]);
}

#[test]
fn chunks_are_loaded_at_their_iterator() {
    let mut chain = small();
    let before = saved(&chain);
    for (iterator, data, expected) in [
        (0, &[][..], Err(ChunkError::BadData)),
        (0, &[1][..], Err(ChunkError::BadData)),
        (1, &[1, 2][..], Err(ChunkError::BadData)),
        (1, &[], Ok(())),
        (1, &[1], Err(ChunkError::BeyondEnd)),
        (2, &[1, 2], Err(ChunkError::BeyondEnd)),
        (65, &[], Err(ChunkError::BeyondEnd)),
        (66, &[1], Err(ChunkError::BeyondEnd)),
        (u64::MAX, &[1], Err(ChunkError::BeyondEnd)),
        // One byte after the end of the first and of the last layer.
        (10, &[0; 9], Err(ChunkError::TooBig)),
        (66, &[0; 41], Err(ChunkError::TooBig)),
    ] {
        assert_eq!(load_chunk(&mut chain, iterator, data), expected, "{iterator} {}", data.len());
        assert_eq!(saved(&chain), before, "{iterator}");
    }
    // The bits are merged with the existing ones. RedisBloom overwrites them, and loses items that were added
    // meanwhile.
    let mut expected = bytes_of(&chain);
    assert_eq!(load_chunk(&mut chain, 9, &[0; 8]), Ok(()));
    assert_eq!(load_chunk(&mut chain, 11, &[7, 9]), Ok(()));
    expected[8] |= 7;
    expected[9] |= 9;
    assert_eq!(bytes_of(&chain), expected);
    assert_eq!(chain.set_bits(), expected.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>());
}

/// Returns the bit arrays one after another.
fn bytes_of(chain: &Filter) -> Vec<u8> {
    chain.layers().iter().flat_map(|layer| layer.bits().bytes()).copied().collect()
}

#[test]
fn large_layers_come_in_chunks_of_sixteen_mebibytes() {
    let mut chain = redisbloom(0.01, 30_000_000, RedisBloomOptions::SCALING, 2);
    for i in 0..1000 {
        add(&mut chain, format!("{i}").as_bytes());
    }
    let mut copy = from_header(&chunk(&chain, 0).unwrap().data, ANY).unwrap();
    let mut lengths = Vec::new();
    let mut iterator = 1;
    while let Some(chunk) = chunk(&chain, iterator) {
        iterator = chunk.next_iterator;
        lengths.push(chunk.data.len());
        load_chunk(&mut copy, iterator, &chunk.data).unwrap();
    }
    let rest = chain.layers()[0].bits().bytes().len() - 2 * CHUNK_BYTES;
    assert_eq!(lengths, [CHUNK_BYTES, CHUNK_BYTES, rest]);
    assert!(saved(&copy) == saved(&chain));
}
