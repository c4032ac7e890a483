//! How large a filter may be: what is over a limit is refused, and said beforehand.

use std::error::Error;

use everbloom::bloom::limits::{
    CAPACITY_MAX_ITEMS, LAYER_MAX_BYTES, LAYERS_MAX, PROBES_MAX, PROBES_TOTAL_MAX,
};
use everbloom::bloom::{
    AddError, Chain, Everbloom, Extent, Growth, ItemEncoding, Layer, LayerShape, Layout, OutOfMemory,
    ReserveError, ScaleError, UnknownMemory, hash128,
};

use crate::{ANY, grow};

#[test]
fn a_filter_past_every_limit_is_refused_before_memory_is_asked_for() {
    for error_rate in [5e-324, 1e-6, 0.01, 0.5] {
        let parameters = Everbloom { error_rate, capacity_items: CAPACITY_MAX_ITEMS, growth: Growth::Fixed };
        let Err(ReserveError::TooLarge { needed_bytes, limit_bytes }) =
            Chain::reserve(parameters, &(1 << 36))
        else {
            panic!("2^40 items at {error_rate} are more than 64 GiB");
        };
        assert!(needed_bytes > 1 << 36 && limit_bytes == 1 << 36);
    }
    let parameters =
        Everbloom { error_rate: 5e-324, capacity_items: CAPACITY_MAX_ITEMS, growth: Growth::Fixed };
    let error = Chain::reserve(parameters, &ANY).unwrap_err();
    assert!(
        matches!(error, ReserveError::TooLarge { limit_bytes: LAYER_MAX_BYTES, .. }),
        "a layer above 1 TiB is refused whatever the limit of the filter: {error:?}"
    );
}

#[test]
fn the_next_layer_never_holds_more_items_than_a_layer_may() {
    let mut chain = Chain::reserve(
        Everbloom {
            error_rate: 0.01,
            capacity_items: 1 << 26,
            growth: Growth::Scaling { expansion: 32_768 },
        },
        &ANY,
    )
    .unwrap();
    chain.layers_mut()[0].set_items(1 << 26);
    let refused = chain.add(hash128(b"one more"), &ANY);
    assert_eq!(refused, Err(AddError::CannotGrow(ReserveError::TooLong)));
    assert_eq!(chain.layers().len(), 1);
}

#[test]
fn a_chain_has_4096_layers_and_no_more() {
    let growth = Growth::Scaling { expansion: 1 };
    let parameters = Everbloom { error_rate: 0.01, capacity_items: 1, growth };
    let mut chain = Chain::reserve(parameters, &ANY).unwrap();
    for layers in 1..LAYERS_MAX {
        assert_eq!((chain.layers().len(), grow(&mut chain, ANY)), (layers, Ok(())));
    }
    assert_eq!(grow(&mut chain, ANY), Err(ReserveError::TooLong));
    let items = LAYERS_MAX as u64;
    assert_eq!((chain.layers().len() as u64, chain.capacity_items()), (items, items));
    assert_eq!(parameters.validate_scale_to(items, ANY), Ok(()));
    assert_eq!(parameters.validate_scale_to(items + 1, ANY), Err(ScaleError::TooLong));
    let layers = chain.try_clone(UnknownMemory).unwrap();
    assert_eq!(Chain::from_layers(parameters, one_more(layers)).err(), Some("layer count"));
    assert_eq!(Chain::from_layers(parameters, Vec::new()).err(), Some("layer count"));
    assert!(Chain::from_layers(parameters, one_more(Chain::reserve(parameters, &ANY).unwrap())).is_ok());
}

/// The layers of a chain and a copy of the first.
fn one_more(chain: Chain) -> Vec<Layer> {
    let layers = chain.layers();
    layers.iter().chain(layers.first()).map(|layer| layer.try_clone(UnknownMemory).unwrap()).collect()
}

#[test]
fn every_limit_of_a_filter_may_be_met_and_not_passed() {
    let check = |extent: Extent| extent.check::<Everbloom>(&ANY);
    let layers = |count: usize, probes| (0..count).fold(Extent::default(), |e, _| e.and_layer(8, probes));
    assert_eq!(check(layers(LAYERS_MAX, 1)), Ok(()));
    assert_eq!(check(layers(LAYERS_MAX + 1, 1)), Err(ReserveError::TooLong));
    let probes = u32::try_from(PROBES_TOTAL_MAX).unwrap();
    assert_eq!(check(layers(1, probes)), Ok(()));
    assert_eq!(check(layers(2, probes / 2)), Ok(()));
    assert_eq!(check(layers(2, probes / 2).and_layer(8, 1)), Err(ReserveError::TooLong));
    assert_eq!(check(layers(1, probes + 1)), Err(ReserveError::TooLong));
    let largest = Extent::default().and_layer(LAYER_MAX_BYTES, 7);
    assert_eq!(check(largest.and_layer(LAYER_MAX_BYTES, 7)), Ok(()));
    let Err(ReserveError::TooLarge { needed_bytes, limit_bytes }) =
        check(Extent::default().and_layer(LAYER_MAX_BYTES + 1, 7).and_layer(8, 7))
    else {
        panic!("a layer of more than 1 TiB");
    };
    assert_eq!(limit_bytes, LAYER_MAX_BYTES);
    // The structs count too: those of the chain and of each layer.
    let structs_bytes = (size_of::<Chain>() + 2 * size_of::<Layer>()) as u64;
    assert_eq!(needed_bytes, structs_bytes + LAYER_MAX_BYTES + 9);
    // Sums end at the largest number, which no limit lets through.
    let endless = Extent::default().and_layer(u64::MAX, u32::MAX).and_layer(u64::MAX, u32::MAX);
    assert_eq!(check(endless), Err(ReserveError::TooLong));
    let endless = Extent::default().and_layer(u64::MAX, 1).and_layer(u64::MAX, 1);
    assert!(endless.check::<Everbloom>(&(u64::MAX - 1)).is_err());
}

#[test]
fn every_limit_of_a_layer_may_be_met_and_not_passed() {
    let scattered = |size_bytes: u64, probes, capacity_items| {
        let size_bits = size_bytes * 8;
        LayerShape { layout: Layout::Scattered, probes, size_bits, capacity_items }.validate()
    };
    assert_eq!(scattered(LAYER_MAX_BYTES, PROBES_MAX, CAPACITY_MAX_ITEMS), Ok(()));
    assert_eq!(scattered(LAYER_MAX_BYTES + 8, PROBES_MAX, CAPACITY_MAX_ITEMS), Err("size in bits"));
    assert_eq!(scattered(LAYER_MAX_BYTES, PROBES_MAX + 1, CAPACITY_MAX_ITEMS), Err("probes"));
    assert_eq!(scattered(LAYER_MAX_BYTES, PROBES_MAX, CAPACITY_MAX_ITEMS + 1), Err("capacity"));
    assert_eq!(scattered(8, 1, 64), Ok(()));
    assert_eq!(scattered(8, 1, 65), Err("capacity"));
    assert_eq!(scattered(8, 1, 0), Err("capacity"));
    assert_eq!(scattered(8, 0, 64), Err("probes"));
    assert_eq!(scattered(0, 1, 1), Err("size in bits"));
    assert_eq!(scattered(4, 1, 1), Err("size in bits"));
}

#[test]
fn validation_tells_what_stops_a_filter() {
    let scaling = |capacity_items, expansion| Everbloom {
        error_rate: 0.01,
        capacity_items,
        growth: Growth::from_expansion(expansion),
    };
    assert_eq!(scaling(100, 0).validate_scale_to(1, ANY), Err(ScaleError::Fixed));
    assert_eq!(scaling(1 << 26, 32_768).validate_scale_to(1 << 27, ANY), Err(ScaleError::TooLong));
    // A layer may hold 2^40 items, but not at a rate that asks for more than 1 TiB.
    assert_eq!(scaling(1 << 39, 2).validate_scale_to(1 << 40, ANY), Err(ScaleError::TooLarge));
    assert_eq!(scaling(1 << 39, 2).validate_scale_to(1 << 39, ANY), Ok(()));
    // As BF.INSERT k CAPACITY 100 EXPANSION 1 under a limit of 576 bytes, where growth ends before 300 items.
    let (parameters, limit_bytes) = (scaling(100, 1), 576);
    let mut chain = Chain::reserve(parameters, &limit_bytes).unwrap();
    while grow(&mut chain, limit_bytes).is_ok() {}
    assert_eq!(parameters.validate_scale_to(chain.capacity_items(), limit_bytes), Ok(()));
    let beyond = chain.capacity_items() + 1;
    assert_eq!(parameters.validate_scale_to(beyond, limit_bytes), Err(ScaleError::TooLarge));
}

#[test]
fn every_error_says_what_it_is() {
    let too_large = ReserveError::TooLarge { needed_bytes: 9, limit_bytes: 8 };
    let errors: [(&dyn Error, &str); 6] = [
        (&OutOfMemory, "out of memory"),
        (&too_large, "the filter would take 9 bytes, more than 8"),
        (&AddError::Full, "the filter is full and of fixed size"),
        (&AddError::CannotGrow(too_large), "the filter is full and cannot grow"),
        (&AddError::NotEncodable(ItemEncoding::Int32Le), "the item is not a decimal integer of 32 bits"),
        (&ScaleError::Fixed, "the filter is of fixed size"),
    ];
    for (error, text) in errors {
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(AddError::CannotGrow(too_large).source().unwrap().to_string(), too_large.to_string());
}
