//! Which error wins where there are several.

use crate::errors::{WRONGTYPE, replies};
use crate::harness::{Site, Test, tests};

pub(crate) const TESTS: &[Test] = tests![
    reserve_reports_the_first_of_several_errors,
    insert_reports_the_first_of_several_errors,
    insert_looks_at_its_options_before_the_key,
    info_looks_at_the_key_before_the_field,
    scandump_looks_at_the_key_before_the_iterator,
    loadchunk_looks_at_the_iterator_before_the_key,
];

fn reserve_reports_the_first_of_several_errors(site: &Site) {
    let rate = "-ERR error rate must be in the range (0.000000, 1.000000)";
    replies(
        site,
        &[
            ("BF.RESERVE s x y EXPANSION z", "-ERR bad error rate"),
            ("BF.RESERVE s 7 y EXPANSION z", rate),
            ("BF.RESERVE s 0.1 y EXPANSION z", "-ERR bad capacity"),
            ("BF.RESERVE s 0.1 0 EXPANSION z", "-ERR capacity must be in the range [1, 1099511627776]"),
            ("BF.RESERVE s 0.1 1 EXPANSION z", "-ERR bad expansion"),
            ("BF.RESERVE s 0.1 1 EXPANSION -7", "-ERR expansion must be in the range [0, 32768]"),
            ("BF.RESERVE s 0.1 1 EXPANSION 7", WRONGTYPE),
            ("BF.RESERVE f 0.1 1 EXPANSION 7", "-ERR item exists"),
            ("BF.RESERVE f x 1", "-ERR bad error rate"),
            // The key is looked at before the memory.
            ("BF.RESERVE f 0.01 1099511627776", "-ERR item exists"),
        ],
    );
}

fn insert_reports_the_first_of_several_errors(site: &Site) {
    let arity = "-ERR wrong number of arguments for 'bf.insert' command";
    replies(
        site,
        &[
            ("BF.INSERT s ERROR 7 CAPACITY 0 EXPANSION -1 WORD", "-Bad error rate"),
            ("BF.INSERT s CAPACITY 0 ERROR 7 EXPANSION -1 WORD", "-Bad capacity"),
            ("BF.INSERT s EXPANSION -1 WORD ERROR 7", "-Bad expansion"),
            ("BF.INSERT s WORD ERROR 7", "-Unknown argument received"),
            // Options are complete before the lack of items is noticed.
            ("BF.INSERT s ERROR 7 ITEMS", "-Bad error rate"),
            ("BF.INSERT s ERROR 0.7 ITEMS", arity),
            ("BF.INSERT s ERROR 0.7 CAPACITY", arity),
            ("BF.INSERT s ERROR 0.7 ITEMS a", WRONGTYPE),
        ],
    );
}

fn insert_looks_at_its_options_before_the_key(site: &Site) {
    replies(
        site,
        &[
            ("BF.INSERT f CAPACITY 0 ITEMS a", "-Bad capacity"),
            ("BF.INSERT f ERROR 1 ITEMS a", "-Bad error rate"),
            // Valid ones are ignored when the filter is there.
            ("BF.INSERT f CAPACITY 7777 ERROR 0.5 NONSCALING ITEMS a", "[1]"),
            ("BF.INFO f CAPACITY", "[100]"),
            ("BF.INFO f EXPANSION", "[2]"),
            ("BF.INSERT f CAPACITY 1099511627776 ERROR 0.000001 ITEMS b", "[1]"),
        ],
    );
}

fn info_looks_at_the_key_before_the_field(site: &Site) {
    replies(
        site,
        &[
            ("BF.INFO k FOO", "-ERR not found"),
            ("BF.INFO s FOO", WRONGTYPE),
            ("BF.INFO f FOO", "-Invalid information value"),
            ("BF.INFO f CAP", "-Invalid information value"),
            ("BF.INFO f CAPACITYX", "-Invalid information value"),
        ],
    );
}

fn scandump_looks_at_the_key_before_the_iterator(site: &Site) {
    replies(
        site,
        &[
            ("BF.SCANDUMP k x", "-ERR not found"),
            ("BF.SCANDUMP s x", WRONGTYPE),
            ("BF.SCANDUMP f x", "-Second argument must be numeric"),
            ("BF.SCANDUMP f 1.5", "-Second argument must be numeric"),
            ("BF.SCANDUMP f +1", "-Second argument must be numeric"),
        ],
    );
}

fn loadchunk_looks_at_the_iterator_before_the_key(site: &Site) {
    replies(
        site,
        &[
            ("BF.LOADCHUNK k x data", "-ERR Second argument must be numeric"),
            ("BF.LOADCHUNK s x data", "-ERR Second argument must be numeric"),
            ("BF.LOADCHUNK f x data", "-ERR Second argument must be numeric"),
            ("BF.LOADCHUNK f 0 data", "-ERR received bad data"),
            ("BF.LOADCHUNK f -5 data", "-ERR received bad data"),
            ("BF.LOADCHUNK f 1 data", "-ERR received bad data"),
        ],
    );
}
