//! What a filter that is to be made shall be: the options of BF.RESERVE and BF.INSERT.

use crate::bloom::keyed::{HashKey, KEY_BYTES};
use crate::bloom::limits::CAPACITY_MAX_ITEMS;
use crate::bloom::redisbloom;
use crate::bloom::valkeybloom::{SEED_BYTES, Seed};
use crate::bloom::{Format, Growth, ScaleError};
use crate::command::error::CommandError;
use crate::command::settings::{Host, Settings};

/// The options of a filter that is to be made, as far as they were given; checked one by one, not yet
/// together.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreationOptions {
    /// Promised rate; strictly between 0 and 1.
    pub error_rate: Option<f64>,
    /// Items of the first layer, at least 1.
    pub capacity_items: Option<u64>,
    /// Growth factor; 0 for a fixed filter.
    pub expansion: Option<u32>,
    /// NONSCALING.
    pub is_fixed: bool,
    /// SATURATE.
    pub is_saturating: bool,
    /// KEYED.
    pub is_keyed: bool,
    /// KEY.
    pub key: Option<[u8; KEY_BYTES]>,
    /// FORMAT.
    pub format: Option<Format>,
    /// COUNTING.
    pub is_counting: bool,
    /// WINDOW or PWINDOW, in milliseconds.
    pub window_ms: Option<u64>,
    /// NOREFRESH.
    pub keeps_first: bool,
    /// AT: the moment that the items are of, in milliseconds of UNIX time. Of those that are added, too.
    pub at_ms: Option<u64>,
    /// SEED.
    pub seed: Option<[u8; SEED_BYTES]>,
    /// TIGHTENING; strictly between 0 and 1.
    pub tightening_ratio: Option<f64>,
    /// EX, PX, EXAT or PXAT: the moment in milliseconds of UNIX time.
    pub expires_at_ms: Option<u64>,
    /// VALIDATESCALETO, in items.
    pub scale_to_items: Option<u64>,
}

impl CreationOptions {
    /// The largest capacity that the options' format lets a client ask for. A primary may ask for more:
    /// RedisBloom before 8 had no such limit.
    #[must_use]
    pub fn capacity_max_items(&self, host: &dyn Host) -> u64 {
        match self.resolved_format(&host.settings()) {
            Format::RedisBloom if !host.must_obey() => redisbloom::COMMAND_CAPACITY_MAX_ITEMS,
            Format::Everbloom | Format::RedisBloom | Format::ValkeyBloom => CAPACITY_MAX_ITEMS,
        }
    }

    /// Whether the options were given with words that RedisBloom does not know, or only here. A replica may
    /// run the other module while its owner moves over.
    #[must_use]
    pub fn has_foreign_words(&self) -> bool {
        self.is_spelt_out()
            || self.is_saturating
            || self.is_counting
            || self.is_keyed
            || self.key.is_some()
            || self.window_ms.is_some()
            || self.keeps_first
            || self.scale_to_items.is_some()
            || self.expires_at_ms.is_some()
    }

    /// The format asked for. A seed asks for valkey-bloom's, which alone has one: its primaries send it.
    /// COUNTING and WINDOW ask for our own.
    #[must_use]
    pub fn resolved_format(&self, settings: &Settings) -> Format {
        let by_seed = self.seed.map(|_| Format::ValkeyBloom);
        let by_kind = (self.is_counting || self.window_ms.is_some()).then_some(Format::Everbloom);
        self.format.or(by_seed).or(by_kind).unwrap_or(settings.format)
    }

    /// Whether the options say enough for a filter that a primary, a log or a giver of slots adds to and that
    /// is not here.
    ///
    /// An everbloom server spells out what it creates, so what adds without doing so meant a filter that got
    /// lost here. RedisBloom's does not; whoever follows one has its format in `bf.format`.
    #[must_use]
    pub fn may_create(&self, host: &dyn Host) -> bool {
        self.is_spelt_out() || host.settings().format != Format::Everbloom || !host.must_obey()
    }

    /// Whether the options name a format, as creations by everbloom and valkey-bloom do that are replicated.
    #[must_use]
    pub fn is_spelt_out(&self) -> bool {
        self.format.is_some() || self.has_valkey_blooms_words()
    }

    fn has_valkey_blooms_words(&self) -> bool {
        self.seed.is_some() || self.tightening_ratio.is_some()
    }

    /// What the options say of each other, which holds whether the filter is there or not.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn validate(&self, host: &dyn Host) -> Result<(), CommandError> {
        let format = self.resolved_format(&host.settings());
        if self.has_valkey_blooms_words() && format != Format::ValkeyBloom {
            return Err(CommandError::NeedsValkeyBloom);
        }
        let own_words = [
            (self.is_counting, "COUNTING"),
            (self.is_saturating, "SATURATE"),
            (self.is_keyed, "KEYED"),
            (self.key.is_some(), "KEY"),
            (self.window_ms.is_some(), "WINDOW"),
        ];
        self.validate_window()?;
        if self.is_counting && self.is_saturating {
            return Err(CommandError::SaturatingCounters);
        }
        if self.is_counting && (self.is_keyed || self.key.is_some()) {
            return Err(CommandError::KeyedCounters);
        }
        if let Some((_, word)) =
            own_words.iter().find(|(is_given, _)| *is_given && format != Format::Everbloom)
        {
            return Err(CommandError::NeedsEverbloom(word));
        }
        // A filter of a primary or a log may have been made by valkey-bloom, which takes any seed.
        if !host.must_obey() && self.seed.is_some_and(|seed| Seed::new(seed).has_equal_halves()) {
            return Err(CommandError::WeakSeed);
        }
        if self.is_saturating && !self.growth(host).is_fixed_size() {
            return Err(CommandError::NeedsFixedSize);
        }
        if self.scale_to_items.is_none() {
            return Ok(());
        }
        if format == Format::RedisBloom {
            return Err(CommandError::CannotValidateScaleTo);
        }
        if self.growth(host).is_fixed_size() {
            return Err(CommandError::ScaleTo(ScaleError::Fixed));
        }
        Ok(())
    }

    /// What the options say of a filter that forgets.
    fn validate_window(&self) -> Result<(), CommandError> {
        let others = [
            (self.is_counting, "COUNTING"),
            (self.is_saturating, "SATURATE"),
            (self.is_keyed || self.key.is_some(), "KEYED"),
            (self.scale_to_items.is_some(), "VALIDATESCALETO"),
        ];
        match others.iter().find(|(is_given, _)| *is_given) {
            Some((_, word)) if self.window_ms.is_some() => Err(CommandError::ForgetsAnd(word)),
            _ if self.keeps_first && self.window_ms.is_none() => Err(CommandError::NeedsWindow("NOREFRESH")),
            _ => Ok(()),
        }
    }

    /// What the hash of a filter of our own is keyed with; nothing where it is not keyed. A primary that
    /// spells its filters out gives the key itself.
    #[must_use]
    pub fn hash_key(&self, host: &dyn Host) -> Option<HashKey> {
        let is_keyed = self.is_keyed || (host.settings().keyed && !host.must_obey());
        let drawn = || host.random_seed().first_chunk().copied();
        self.key.or_else(|| is_keyed.then(drawn).flatten()).map(HashKey::new)
    }

    /// The growth that the options and the configuration stand for. As in RedisBloom a factor does not
    /// override the configured `fixed`, but that of a primary which spells its filters out does, and so it
    /// does in valkey-bloom.
    #[must_use]
    pub fn growth(&self, host: &dyn Host) -> Growth {
        match self.room(host) {
            Growth::Fixed if self.saturates(host) => Growth::Saturating,
            growth => growth,
        }
    }

    /// Whether a filter of fixed size goes on accepting items when it is full. Only our own can be told so,
    /// and a primary that spells its filters out says so itself.
    fn saturates(&self, host: &dyn Host) -> bool {
        let settings = host.settings();
        let is_ours = self.resolved_format(&settings) == Format::Everbloom
            && !self.is_counting
            && self.window_ms.is_none();
        self.is_saturating || (is_ours && settings.fixed_filters_saturate && !host.must_obey())
    }

    /// The growth, but for what a filter of fixed size does when it is full.
    fn room(&self, host: &dyn Host) -> Growth {
        let settings = host.settings();
        let is_overridden = || self.is_spelt_out() && host.must_obey();
        match self.expansion {
            _ if self.is_fixed => Growth::Fixed,
            Some(expansion)
                if settings.expansion_factor != 0
                    || self.resolved_format(&settings) == Format::ValkeyBloom
                    || is_overridden() =>
            {
                Growth::from_expansion(expansion)
            }
            Some(_) => Growth::Fixed,
            None => Growth::from_expansion(settings.expansion_factor),
        }
    }
}
