//! The directory of many segments.

use everbloom::bloom::table::{EntryKind, Table, TableCounts};
use everbloom::bloom::{BlockMover, BlockVisitor, NoPrefetch, OutOfMemory};

use super::{add, any, bytes, has, plain, remove};

/// The largest block that it visits.
#[derive(Default)]
struct Largest(usize);

impl BlockVisitor for Largest {
    fn visit<T>(&mut self, block: &[T]) {
        self.0 = self.0.max(size_of_val(block));
    }
}

/// Moves every vector.
struct Moves;

impl BlockMover for Moves {
    fn move_vec<T>(&self, values: &mut Vec<T>) {
        let mut moved = Vec::with_capacity(values.len());
        moved.append(values);
        *values = moved;
    }

    fn move_box<T>(&self, _: &mut Box<T>) {}
}

/// Returns the bytes of the largest block of a table.
fn largest(table: &Table) -> usize {
    let mut largest = Largest::default();
    table.visit_blocks(&mut largest);
    largest.0
}

/// Nothing of more than 64 KiB is moved at once while a table grows.
#[test]
fn the_directory_is_in_pieces_of_at_most_64_kib() {
    let mut counts = TableCounts { blocks_log: 6, ..plain(0.01).counts() };
    for segments in [2, 3, 5, 2047, 2048, 2049, 2050, 20_000] {
        counts.segments = segments;
        let mut table = Table::try_of_counts(EntryKind::Plain, counts, &any()).unwrap();
        assert_eq!(table.segment_count(), segments);
        assert!(largest(&table) <= 64 << 10, "{segments}: {}", largest(&table));
        // Every segment is where its number says.
        (0..5_000).for_each(|item| _ = add(&mut table, item).unwrap());
        assert_eq!(table.internal_validate(), Ok(()), "{segments}");
        let before = bytes(&table);
        table.move_structs(&Moves);
        (0..segments).for_each(|number| table.move_segment(number, &Moves));
        assert!(bytes(&table) == before && (0..5_000).all(|item| has(&table, item)), "{segments}");
        let copy = table.try_clone().unwrap();
        assert!(bytes(&copy) == before && largest(&copy) <= 64 << 10, "{segments}");
    }
}

/// The first pieces take little, and a table of several segments that becomes small again has one in place.
#[test]
fn the_directory_grows_and_shrinks_with_the_segments() -> Result<(), OutOfMemory> {
    let mut table = super::counted(0.01);
    let mut most = 0;
    for item in 0..60_000 {
        let _ = add(&mut table, item);
        most = most.max(table.segment_count());
    }
    for item in 0..59_999 {
        assert!(remove(&mut table, item, NoPrefetch)?);
    }
    assert!(most > 8 && table.segment_count() == 1 && has(&table, 59_999));
    assert!(table.size_bytes() < 200, "{}", table.size_bytes());
    Ok(())
}
