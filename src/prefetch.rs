//! The processor's prefetch instruction; the only unsafe code outside the adapter to the server.

use crate::bloom::Prefetch;

/// Prefetches on processors that this code supports. On others it does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Prefetch for Processor {
    #[inline]
    fn prefetch(self, word: &u64) {
        prefetch(word);
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch(word: &u64) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of every x86-64 processor; the instruction is a hint that reads and writes nothing
    // and faults on no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
}

#[cfg(target_arch = "aarch64")]
fn prefetch(word: &u64) {
    // SAFETY: the instruction is part of every AArch64 processor; it is a hint that changes no register,
    // reads and writes nothing and faults on no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{word}]", word = in(reg) word,
                        options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn prefetch(_word: &u64) {}
