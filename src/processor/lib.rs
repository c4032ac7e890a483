//! The processor's instructions for prefetching and for selecting bits. This is the only unsafe code outside
//! `module`.

use everbloom_filter::prefetch::{Prefetch, SelectTask};
use everbloom_filter::words::PortableSelect;

/// Prefetches memory on x86-64 and AArch64, and selects bits by an instruction on x86-64. Elsewhere it does not
/// prefetch, and selects bits without special instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processor;

impl Prefetch for Processor {
    #[inline]
    fn prefetch<T>(self, word: &T) {
        prefetch(word);
    }

    #[inline(always)]
    fn with_fast_select<T: SelectTask>(self, task: T) -> T::Output {
        #[cfg(target_arch = "x86_64")]
        if bits::are_available() {
            return bits::run(task);
        }
        task.run(PortableSelect)
    }
}

/// Selects bits by the instructions of x86-64 that count and deposit bits. The selecting code also moves bits of blocks by
/// vectors of four words (AVX2), which every processor with a fast deposit has.
#[cfg(target_arch = "x86_64")]
mod bits {
    use everbloom_filter::prefetch::SelectTask;
    use everbloom_filter::words::Select;
    use std::arch::x86_64::{__cpuid, _pdep_u64, CpuidResult};
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
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("avx2")
            && !is_deposit_slow(cpuid(0), cpuid(1).eax);
        AVAILABLE.store(1 + u8::from(found), Ordering::Relaxed);
        found
    }

    fn cpuid(leaf: u32) -> CpuidResult {
        // SAFETY: every x86-64 processor has the instruction and these two leaves.
        #[allow(unused_unsafe, reason = "later compilers than the oldest supported one need no unsafe block")]
        unsafe {
            __cpuid(leaf)
        }
    }

    /// Returns whether `PDEP` takes microcode on a processor, some hundred cycles instead of three: AMD's Zen 1 and Zen 2
    /// (family 17h), and Hygon's Zen 1 (family 18h). `vendor` is leaf 0 of CPUID, and `signature` is EAX of leaf 1.
    ///
    /// Source: AMD, "Software Optimization Guide for AMD Family 17h Processors", instruction latencies.
    pub(super) fn is_deposit_slow(vendor: CpuidResult, signature: u32) -> bool {
        let (base, extended) = (signature >> 8 & 0xf, signature >> 20 & 0xff);
        let family = if base == 0xf { base + extended } else { base };
        match [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() {
            b"AuthenticAMD" => family == 0x17,
            b"HygonGenuine" => family == 0x18,
            _ => false,
        }
    }

    #[inline(always)]
    pub(super) fn run<T: SelectTask>(task: T) -> T::Output {
        // SAFETY: the caller has checked with `are_available` that the processor has these instructions.
        unsafe { run_with_instructions(task) }
    }

    #[target_feature(enable = "popcnt,bmi1,bmi2,avx2")]
    fn run_with_instructions<T: SelectTask>(task: T) -> T::Output {
        task.run(DepositSelect(()))
    }
}

#[cfg(target_arch = "x86_64")]
fn prefetch<T>(word: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 processor has the instruction. It is a hint that reads and writes nothing and faults on no
    // address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(word).cast()) };
}

#[cfg(target_arch = "aarch64")]
fn prefetch<T>(word: &T) {
    // SAFETY: every AArch64 processor has the instruction. It is a hint that changes no register, reads and writes
    // nothing and faults on no address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{word}]", word = in(reg) std::ptr::from_ref(word),
                        options(nostack, preserves_flags, readonly));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn prefetch<T>(_word: &T) {}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn deposits_are_slow_on_the_first_two_generations_of_zen() {
        use std::arch::x86_64::CpuidResult;

        let vendor = |name: &[u8; 12]| {
            let word = |at: usize| u32::from_le_bytes([name[at], name[at + 1], name[at + 2], name[at + 3]]);
            CpuidResult { eax: 1, ebx: word(0), edx: word(4), ecx: word(8) }
        };
        for (name, signature, is_slow) in [
            // Zen 1, Zen 2, Zen 3, Zen 4, Zen 5, and one of AMD's families before Zen.
            (b"AuthenticAMD", 0x0080_0f12, true),
            (b"AuthenticAMD", 0x0083_0f10, true),
            (b"AuthenticAMD", 0x00a2_0f10, false),
            (b"AuthenticAMD", 0x00a6_0f12, false),
            (b"AuthenticAMD", 0x00b4_0f40, false),
            (b"AuthenticAMD", 0x0066_0f01, false),
            (b"HygonGenuine", 0x0090_0f02, true),
            (b"GenuineIntel", 0x000c_06f2, false),
        ] {
            assert_eq!(super::bits::is_deposit_slow(vendor(name), signature), is_slow, "{signature:x}");
        }
    }
}
