//! The processors with which the commands of the simulated server run.

use std::cell::Cell;

use everbloom_filter::prefetch::{Prefetch, SelectTask};
use everbloom_filter::words::PortableSelect;
use everbloom_processor::Processor;

thread_local! {
    /// Tasks of this thread that ran with the instructions of this machine, and those that ran in portable code.
    pub static TASKS: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
}

/// Runs one task with the instructions of this machine, and the next one in portable code. So every test of a command
/// tests both, and that they do the same.
#[derive(Clone, Copy, Debug)]
pub struct BothProcessors;

impl Prefetch for BothProcessors {
    fn prefetch<T>(self, word: &T) {
        Processor.prefetch(word);
    }

    fn with_fast_select<T: SelectTask>(self, task: T) -> T::Output {
        let mut tasks = TASKS.get();
        let is_portable = tasks[0] > tasks[1];
        tasks[usize::from(is_portable)] += 1;
        TASKS.set(tasks);
        if is_portable { task.run(PortableSelect) } else { Processor.with_fast_select(task) }
    }
}
