//! The processor's instructions for prefetching and for selecting bits. This is the only unsafe code outside `redis`.

use crate::bloom::prefetch::{Prefetch, Task};
use crate::bloom::words::PortableSelect;

/// Prefetches memory on x86-64 and AArch64, and selects bits by an instruction on x86-64. Elsewhere it does not
/// prefetch, and selects bits without special instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Prefetch for Processor {
    #[inline]
    fn prefetch(self, word: &u64) {
        prefetch(word);
    }

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Output {
        #[cfg(target_arch = "x86_64")]
        if bits::are_available() {
            return bits::run(task);
        }
        task.run(PortableSelect)
    }
}

/// Selects bits by the instructions of x86-64 that count and deposit bits.
#[cfg(target_arch = "x86_64")]
mod bits {
    use crate::bloom::prefetch::Task;
    use crate::bloom::words::Select;
    use std::arch::x86_64::_pdep_u64;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// Selects a bit by depositing one (`PDEP`). A value exists only if the processor is known to have BMI2.
    #[derive(Clone, Copy)]
    struct DepositSelect(());

    impl Select for DepositSelect {
        #[inline(always)]
        fn select(self, word: u64, rank: u32) -> u32 {
            // SAFETY: only `run_with_instructions` makes values of this type, and it runs only on processors with BMI2.
            unsafe { _pdep_u64(1u64.wrapping_shl(rank), word) }.trailing_zeros()
        }
    }

    /// Whether the processor has the instructions: 0 if it was not examined yet, 1 for no, 2 for yes.
    static AVAILABLE: AtomicU8 = AtomicU8::new(0);

    #[inline(always)]
    pub(super) fn are_available() -> bool {
        match AVAILABLE.load(Ordering::Relaxed) {
            0 => detect(),
            known => known == 2,
        }
    }

    #[cold]
    fn detect() -> bool {
        let found = is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2");
        AVAILABLE.store(1 + u8::from(found), Ordering::Relaxed);
        found
    }

    #[inline(always)]
    pub(super) fn run<T: Task>(task: T) -> T::Output {
        // SAFETY: the caller has checked with `are_available` that the processor has these instructions.
        unsafe { run_with_instructions(task) }
    }

    #[target_feature(enable = "popcnt,bmi1,bmi2")]
    fn run_with_instructions<T: Task>(task: T) -> T::Output {
        task.run(DepositSelect(()))
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(word: &u64) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has the instruction. It is a hint that reads and writes nothing and faults on no
    // address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
}

#[cfg(target_arch = "aarch64")]
fn prefetch(word: &u64) {
    // SAFETY: every AArch64 processor has the instruction. It is a hint that changes no register, reads and writes
    // nothing and faults on no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{word}]", word = in(reg) word,
                        options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn prefetch(_word: &u64) {}
