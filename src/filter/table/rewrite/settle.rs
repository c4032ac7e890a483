//! Writing the entries that were gathered for a block, after equal and covered ones are left out.

use super::entries::{Gathered, Rule, Run, fold, sort_by_bucket, uncovered, united};
use super::rewriter::{RewriteSums, Rewriter};
use crate::memory::OutOfMemory;
use crate::table::entry::{Entry, EntryKind, RUN_MAX};
use crate::table::segment::RewriteError;

impl Rewriter {
    /// Writes the gathered entries to the list. They must be settled.
    pub(super) fn push_all(&mut self, bits: u32) -> Result<(), OutOfMemory> {
        let Self { kind, gathered, list, .. } = self;
        let entry_bits = self.schedule.remainder_bits(*kind, bits) + 1;
        list.try_reserve(gathered.len() * kind.slots_max())?;
        self.sums.has_others |= gathered.first().is_some_and(|first| first.is_other);
        for Gathered { bucket, entry, .. } in gathered {
            entry.write(*kind, entry_bits, |slot| list.push(*bucket, slot));
        }
        Ok(())
    }

    /// Settles the gathered entries and writes them to the list.
    pub(super) fn settle(&mut self, bits: u32) -> Result<(), RewriteError> {
        sort_by_bucket(&self.gathered, &mut self.sorted)?;
        let Self { kind, rule, sorted, sums, list, .. } = self;
        let RewriteSums { change, written, has_others, .. } = sums;
        let entry_bits = self.schedule.remainder_bits(*kind, bits) + 1;
        list.try_reserve(sorted.len() * kind.slots_max())?;
        let mut kept = Run::new();
        for run in sorted.chunk_by_mut(|one, other| one.bucket == other.bucket) {
            kept.clear();
            run.sort_unstable();
            let mut leave_out = |one: &Gathered| change.remove_weight(bits, one.entry.value);
            if let [one] = run {
                kept.push(*one);
            } else if *kind == EntryKind::Counted {
                united(run, &mut kept, *rule, &mut leave_out)?;
                if *rule == Rule::Sum {
                    fold(&mut kept, &mut leave_out)?;
                }
            } else {
                uncovered(run, &mut kept, &mut leave_out);
                if kept.len() > RUN_MAX {
                    kept.iter().for_each(leave_out);
                    let number = run.iter().map(|one| one.entry.number).fold(0, u64::max);
                    kept.truncate(1);
                    for one in &mut kept {
                        one.entry = Entry { value: 0, copies: 0, number };
                        one.is_other = true;
                    }
                    change.add_weight(bits, 0);
                }
            }
            for Gathered { bucket, entry, is_other, .. } in &kept {
                *has_others |= *is_other;
                written.count(*kind, *entry);
                entry.write(*kind, entry_bits, |slot| list.push(*bucket, slot));
            }
        }
        Ok(())
    }

    /// Makes the buckets of the block with most slots saturated. This happens only if items are crafted.
    #[cold]
    pub(super) fn saturate_fullest_block(&mut self, bits: u32) -> Result<(), RewriteError> {
        let Self { kind, sums: RewriteSums { change, written, has_others, .. }, list, now, .. } = self;
        if *kind == EntryKind::Counted {
            return Err(RewriteError::TooFull);
        }
        let entry_bits = self.schedule.remainder_bits(*kind, bits) + 1;
        list.unite_fullest_block(|slots| {
            let mut saturated = Entry::default();
            for (_, slot) in slots {
                let entry = Entry::of_slot(*kind, entry_bits, *now, *slot);
                change.remove_weight(bits, entry.value);
                written.uncount(*kind, entry);
                saturated.number = saturated.number.max(entry.number);
            }
            change.add_weight(bits, 0);
            written.count(*kind, saturated);
            let mut slot = 0;
            saturated.write(*kind, entry_bits, |written| slot = written);
            slot
        })?;
        *has_others = true;
        Ok(())
    }
}
