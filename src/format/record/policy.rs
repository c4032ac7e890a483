//! The part of the record for the filter as a whole: its promise and its growth.

use std::num::{NonZeroU8, NonZeroU16};

use serde::{Deserialize, Serialize};

use crate::stream::{DecodeError, read};
use everbloom_filter::filter::policy::{BitOrder, Counting, Imported, StringForm, ValkeyBloom};
use everbloom_filter::generation::{Steps, WindowLength};
use everbloom_filter::{Filter, Growth, Policy, Promise, Rules, Window};

/// The first bytes of every record.
const MAGIC: [u8; 4] = *b"evbl";
/// Version of the record.
const VERSION: u16 = 1;

/// Bytes of the part.
pub const POLICY_BYTES: usize = 48;

/// The policies by number. Numbers are only added; they never change their meaning.
const PROMISE: u8 = 1;
const UNITED: u8 = 2;
const WINDOW: u8 = 3;
const IMPORTED: u8 = 4;
const VALKEY_BLOOM: u8 = 5;
const MERGED: u8 = 6;
const COUNTING: u8 = 7;

/// Flag of a saturating filter.
const SATURATES: u8 = 1;
/// Flag of a sliding window in which the time of an item is that of its first add, not of its last (NOREFRESH).
const NO_REFRESH: u8 = 2;
/// Flag of a filter whose capacity nobody chose.
const UNRESERVED: u8 = 4;
/// Flag of a filter with a table.
const TABLE: u8 = 8;

/// The part for the filter. Unused fields are 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct PolicyFields {
    magic: [u8; 4],
    version: u16,
    policy: u8,
    flags: u8,
    /// Imported: the order of the bits in the client's string. Counting: BUCKETSIZE, 0 if it was not given.
    order: u8,
    /// A window: 1 with 120 steps.
    steps: u8,
    pub(super) layer_count: u16,
    /// 0 for a fixed filter.
    expansion: u32,
    error_rate: f64,
    capacity_items: u64,
    /// A window: its milliseconds. An imported filter: the bytes of the client's string. A counting filter:
    /// MAXITERATIONS, 0 if it was not given.
    length: u64,
    /// A window: how many adds gave an item a life of its own. An imported filter: the estimated items. valkey-bloom: the
    /// bits of the tightening ratio. A counting filter: the deletions.
    detail: u64,
}

impl PolicyFields {
    pub(super) fn of(filter: &Filter) -> Self {
        let growth = filter.growth();
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let common = Self {
            magic: MAGIC,
            version: VERSION,
            flags: flag(growth == Growth::Saturating, SATURATES)
                | flag(growth.is_unreserved(), UNRESERVED)
                | flag(filter.table().is_some(), TABLE),
            layer_count: u16::try_from(filter.layer_count()).unwrap_or(u16::MAX),
            expansion: growth.expansion(),
            ..Self::default()
        };
        let promised = |policy, promise: &Promise| Self {
            policy,
            error_rate: promise.error_rate,
            capacity_items: promise.capacity_items,
            ..common
        };
        match filter.policy() {
            Policy::Everbloom(promise) => promised(PROMISE, promise),
            Policy::Promised(policy) => match policy.rules {
                Rules::Merged => promised(MERGED, &policy.promise),
                Rules::Union => promised(UNITED, &policy.promise),
                Rules::Counting(counting) => Self {
                    order: counting.bucket_size.map_or(0, NonZeroU8::get),
                    length: counting.max_iterations.map_or(0, NonZeroU16::get).into(),
                    detail: counting.deletions,
                    ..promised(COUNTING, &policy.promise)
                },
                Rules::Window(window) => Self {
                    flags: common.flags | flag(window.no_refresh, NO_REFRESH),
                    length: window.span.ms(),
                    steps: (window.span.steps() == Steps::Fine).into(),
                    detail: window.life_adds,
                    ..promised(WINDOW, &policy.promise)
                },
            },
            Policy::Imported(imported) => Self {
                policy: IMPORTED,
                order: imported.form.order.id(),
                error_rate: imported.error_rate,
                length: imported.form.length_bytes,
                detail: imported.estimated_items,
                ..common
            },
            Policy::ValkeyBloom(valkey) => Self {
                policy: VALKEY_BLOOM,
                error_rate: valkey.error_rate,
                capacity_items: valkey.capacity_items,
                detail: valkey.tightening_ratio.to_bits(),
                ..common
            },
            // RedisBloom's header has a format of its own.
            Policy::RedisBloom(_) => common,
        }
    }

    /// Reads the part from the start of `rest`.
    pub(super) fn read(rest: &mut &[u8]) -> Result<Self, DecodeError> {
        let part: Self = read(rest)?;
        match part {
            Self { magic: MAGIC, version: VERSION, .. } => Ok(part),
            Self { magic: MAGIC, version, .. } => Err(DecodeError::unsupported("version", version)),
            _ => Err(DecodeError::Invalid("magic")),
        }
    }

    /// Returns whether the layers have space for a head, which valkey-bloom's snapshots need.
    pub(super) const fn has_heads(&self) -> bool {
        self.policy == VALKEY_BLOOM
    }

    /// Returns whether a part for a table follows the parts for the layers.
    pub(super) const fn has_table(&self) -> bool {
        self.flags & TABLE != 0
    }

    /// Returns the policy. Does not check ranges, which [`Filter::from_parts`] does, or unused fields, which
    /// [`decode`](super::decode) does.
    pub(super) fn policy(&self) -> Result<Policy, DecodeError> {
        let Self { flags, error_rate, capacity_items, .. } = *self;
        let growth = match Growth::from_expansion(self.expansion) {
            Growth::Fixed if flags & SATURATES != 0 => Growth::Saturating,
            growth if flags & UNRESERVED != 0 => growth.unreserved(),
            growth => growth,
        };
        let promise = Promise { error_rate, capacity_items, growth };
        Ok(match self.policy {
            PROMISE => Policy::Everbloom(promise),
            MERGED => Policy::promised(promise, Rules::Merged),
            UNITED => Policy::promised(promise, Rules::Union),
            COUNTING => {
                let max_iterations = u16::try_from(self.length);
                let max_iterations = max_iterations.map_err(|_| DecodeError::Invalid("iterations"))?;
                let counting = Counting {
                    bucket_size: NonZeroU8::new(self.order),
                    max_iterations: NonZeroU16::new(max_iterations),
                    deletions: self.detail,
                };
                Policy::promised(promise, Rules::Counting(counting))
            }
            WINDOW => {
                let steps = if self.steps == 0 { Steps::Fourteen } else { Steps::Fine };
                let span = WindowLength::new(self.length).with_steps(steps);
                let mut window = Window::new(span, flags & NO_REFRESH != 0);
                window.life_adds = self.detail;
                Policy::promised(promise, Rules::Window(window))
            }
            IMPORTED => {
                let unsupported = DecodeError::unsupported("bit order", self.order);
                let order = BitOrder::from_id(self.order).ok_or(unsupported)?;
                let form = StringForm { order, length_bytes: self.length };
                Policy::Imported(Box::new(Imported {
                    form,
                    estimated_items: self.detail,
                    error_rate,
                    growth,
                }))
            }
            VALKEY_BLOOM => {
                let tightening_ratio = f64::from_bits(self.detail);
                Policy::ValkeyBloom(Box::new(ValkeyBloom {
                    error_rate,
                    tightening_ratio,
                    capacity_items,
                    growth,
                }))
            }
            got => return Err(DecodeError::unsupported("policy", got)),
        })
    }
}
