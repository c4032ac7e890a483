//! The meaning of the options of a new filter: which options can be combined, and which filter the options and
//! settings describe.

use super::error::CommandError;
use super::keyspace::{Host, Settings};
use super::options::CreationOptions;
use everbloom_filter::filter::policy::redisbloom;
use everbloom_filter::filter::policy::valkeybloom::TIGHTENING_RATIO_DEFAULT;
use everbloom_filter::filter::policy::{Counting, RedisBloom, ValkeyBloom};
use everbloom_filter::filter::size::validate_scale_to;
use everbloom_filter::generation::WindowLength;
use everbloom_filter::hash::siphash::{HashKey, Seed};
use everbloom_filter::limits::{CAPACITY_DEFAULT_ITEMS, CAPACITY_MAX_ITEMS};
use everbloom_filter::{
    Filter, FilterSpec, Format, Growth, Hash, Kind, Policy, Promise, Rules, ScaleError, Window,
};

/// What the rules of options say of one option.
struct OptionRules {
    /// The word in errors.
    word: &'static str,
    /// Whether the option was given.
    is_given: fn(&CreationOptions) -> bool,
    /// Whether only filters of everbloom's own format have the option.
    needs_everbloom: bool,
    /// Whether sliding-window filters lack the option.
    excludes_window: bool,
    /// Whether a filter is as the option says, which an existing filter must be.
    agrees: fn(&CreationOptions, &Filter) -> bool,
}

/// An option that every filter can have, and that an existing filter ignores.
const OPTION: OptionRules = OptionRules {
    word: "",
    is_given: |_| false,
    needs_everbloom: false,
    excludes_window: false,
    agrees: |_, _| true,
};

/// The options that RedisBloom lacks, or has in other commands only. CAPACITY, ERROR, EXPANSION, NONSCALING and AT have no
/// rules.
const RULES: [OptionRules; 17] = [
    OptionRules {
        word: "FORMAT",
        is_given: |options| options.format.is_some(),
        agrees: |options, filter| options.format == Some(filter.format()),
        ..OPTION
    },
    OptionRules {
        word: "COUNTING",
        is_given: |options| options.is_counting,
        needs_everbloom: true,
        excludes_window: true,
        agrees: |_, filter| filter.kind() == Kind::Counting,
    },
    OptionRules {
        word: "BUCKETSIZE",
        is_given: |options| options.bucket_size.is_some(),
        needs_everbloom: true,
        excludes_window: true,
        ..OPTION
    },
    OptionRules {
        word: "MAXITERATIONS",
        is_given: |options| options.max_iterations.is_some(),
        needs_everbloom: true,
        excludes_window: true,
        ..OPTION
    },
    OptionRules {
        word: "SATURATE",
        is_given: |options| options.is_saturating,
        needs_everbloom: true,
        excludes_window: true,
        agrees: |_, filter| filter.growth() == Growth::Saturating,
    },
    OptionRules {
        word: "KEYED",
        is_given: |options| options.is_keyed,
        needs_everbloom: true,
        agrees: |_, filter| filter.is_keyed() && matches!(filter.hash(), Hash::Keyed(_)),
        ..OPTION
    },
    OptionRules {
        word: "KEY",
        is_given: |options| options.key.is_some(),
        needs_everbloom: true,
        agrees: |options, filter| {
            let is_key = |own: HashKey| Some(*own.bytes()) == options.key;
            filter.is_keyed() && matches!(filter.hash(), Hash::Keyed(own) if is_key(own))
        },
        ..OPTION
    },
    OptionRules {
        word: "WINDOW",
        is_given: |options| options.window_ms.is_some(),
        needs_everbloom: true,
        agrees: |options, filter| filter.window().map(|window| window.span.ms()) == options.window_ms,
        ..OPTION
    },
    OptionRules {
        word: "NOREFRESH",
        is_given: |options| options.no_refresh,
        agrees: |_, filter| filter.window().is_some_and(|window| window.no_refresh),
        ..OPTION
    },
    OptionRules {
        word: "STEPS",
        is_given: |options| options.steps.is_some(),
        agrees: |options, filter| filter.window().map(|window| window.span.steps()) == options.steps,
        ..OPTION
    },
    OptionRules {
        word: "SEED",
        is_given: |options| options.seed.is_some(),
        agrees: |options, filter| {
            let is_seed = |own: Seed| Some(*own.bytes()) == options.seed;
            matches!(filter.hash(), Hash::ValkeyBloom(own) if is_seed(own))
        },
        ..OPTION
    },
    OptionRules {
        word: "TIGHTENING",
        is_given: |options| options.tightening_ratio.is_some(),
        agrees: |_, filter| filter.format() == Format::ValkeyBloom,
        ..OPTION
    },
    OptionRules {
        word: "UNRESERVED",
        is_given: |options| options.is_unreserved,
        needs_everbloom: true,
        excludes_window: true,
        ..OPTION
    },
    OptionRules {
        word: "VALIDATESCALETO",
        is_given: |options| options.scale_to_items.is_some(),
        excludes_window: true,
        ..OPTION
    },
    OptionRules { word: "IFABSENT", is_given: |options| options.if_absent, ..OPTION },
    OptionRules { word: "LIFE", is_given: |options| options.life.is_some(), ..OPTION },
    OptionRules { word: "EX", is_given: |options| options.expires_at_ms.is_some(), ..OPTION },
];

impl CreationOptions {
    /// Returns the largest capacity that a client may request for the options' format. A primary may request more:
    /// RedisBloom before 8 had no such limit.
    #[must_use]
    pub fn capacity_max_items(&self, host: &dyn Host) -> u64 {
        let kind = self.resolved_format(&host.settings()).plain_kind();
        if host.is_replicated() { CAPACITY_MAX_ITEMS } else { kind.capacity_max_items }
    }

    /// Returns the rules of the options that were given.
    fn given(&self) -> impl Iterator<Item = &'static OptionRules> {
        RULES.iter().filter(|rules| (rules.is_given)(self))
    }

    /// Returns whether RedisBloom does not have one of the options, or has it in other commands only. A replica may run
    /// RedisBloom during a migration.
    #[must_use]
    pub fn has_foreign_words(&self) -> bool {
        self.given().next().is_some()
    }

    /// Returns the format of the new filter. Without FORMAT, SEED implies valkey-bloom's format, because its primaries
    /// send SEED, and COUNTING and WINDOW imply everbloom's.
    #[must_use]
    pub fn resolved_format(&self, settings: &Settings) -> Format {
        let by_seed = self.seed.map(|_| Format::ValkeyBloom);
        let by_kind = (self.is_counting || self.window_ms.is_some()).then_some(Format::Everbloom);
        self.format.or(by_seed).or(by_kind).unwrap_or(settings.format)
    }

    /// Returns whether a command with these options may create the filter.
    ///
    /// An everbloom primary replicates each creation explicitly, so a replicated command without explicit options is
    /// for a filter that this server should have. A RedisBloom primary does not, so an everbloom replica of it must set
    /// `bf.format redisbloom`.
    #[must_use]
    pub fn may_create(&self, host: &dyn Host) -> bool {
        self.is_explicit() || host.settings().format != Format::Everbloom || !host.is_replicated()
    }

    /// Returns whether the options contain a format, as in replicated creations of everbloom and valkey-bloom.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.format.is_some() || self.has_valkey_blooms_words()
    }

    fn has_valkey_blooms_words(&self) -> bool {
        self.seed.is_some() || self.tightening_ratio.is_some()
    }

    /// Checks the options that must agree with an existing filter, such as FORMAT and WINDOW. The settings are not
    /// compared. Options such as CAPACITY, ERROR and EXPANSION are ignored. A replicated command is always accepted.
    ///
    /// # Errors
    /// [`CommandError::OtherKind`].
    pub fn check_existing(&self, filter: &Filter, host: &dyn Host) -> Result<(), CommandError> {
        match self.given().find(|rules| !(rules.agrees)(self, filter)) {
            Some(rules) if !host.is_replicated() => Err(CommandError::OtherKind(rules.word)),
            _ => Ok(()),
        }
    }

    /// Checks that VALIDATESCALETO can be combined with the other options, whether the filter exists or not.
    ///
    /// # Errors
    /// [`CommandError::CannotValidateScaleTo`] and [`CommandError::ScaleTo`].
    pub fn validate_scale_to(&self, host: &dyn Host) -> Result<(), CommandError> {
        if self.scale_to_items.is_none() {
            return Ok(());
        }
        if self.resolved_format(&host.settings()) == Format::RedisBloom {
            return Err(CommandError::CannotValidateScaleTo);
        }
        if self.growth(host).is_fixed_size() {
            return Err(CommandError::ScaleTo(ScaleError::Fixed));
        }
        Ok(())
    }

    /// Checks that the options can be combined in a new filter.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn validate(&self, host: &dyn Host) -> Result<(), CommandError> {
        let format = self.resolved_format(&host.settings());
        if self.has_valkey_blooms_words() && format != Format::ValkeyBloom {
            return Err(CommandError::NeedsValkeyBloom);
        }
        self.validate_window()?;
        if format != Format::Everbloom
            && let Some(rules) = self.given().find(|rules| rules.needs_everbloom)
        {
            return Err(CommandError::NeedsEverbloom(rules.word));
        }
        // A replicated filter may come from valkey-bloom, which accepts any seed.
        if !host.is_replicated() && self.seed.is_some_and(|seed| Seed::new(seed).has_equal_halves()) {
            return Err(CommandError::WeakSeed);
        }
        let of_cuckoo =
            [(self.bucket_size.is_some(), "BUCKETSIZE"), (self.max_iterations.is_some(), "MAXITERATIONS")];
        if let Some((_, word)) = of_cuckoo.iter().find(|(is_given, _)| *is_given && !self.is_counting) {
            return Err(CommandError::NotCounting((*word).to_owned()));
        }
        if self.is_saturating && self.is_counting {
            return Err(CommandError::CountingAndSaturate);
        }
        if self.is_saturating && !self.growth(host).is_fixed_size() {
            return Err(CommandError::NeedsFixedSize);
        }
        self.validate_scale_to(host)
    }

    /// Checks the options of a sliding-window filter.
    fn validate_window(&self) -> Result<(), CommandError> {
        match self.given().find(|rules| rules.excludes_window) {
            Some(rules) if self.window_ms.is_some() => Err(CommandError::WindowAnd(rules.word)),
            _ if self.no_refresh && self.window_ms.is_none() => Err(CommandError::NeedsWindow("NOREFRESH")),
            _ if self.steps.is_some() && self.window_ms.is_none() => Err(CommandError::NeedsWindow("STEPS")),
            _ => Ok(()),
        }
    }

    /// Returns the key of the hash of a filter in everbloom's format; `None` if it is not keyed. A replicated
    /// creation contains the key.
    #[must_use]
    pub fn hash_key(&self, host: &dyn Host) -> Option<HashKey> {
        let is_keyed = self.is_keyed || (host.settings().keyed && !host.is_replicated());
        let drawn = || host.random_seed().first_chunk().copied();
        self.key.or_else(|| is_keyed.then(drawn).flatten()).map(HashKey::new)
    }

    /// Returns the growth of the new filter.
    #[must_use]
    pub fn growth(&self, host: &dyn Host) -> Growth {
        match self.growth_until_full(host) {
            Growth::Fixed if self.saturates(host) => Growth::Saturating,
            growth => growth,
        }
    }

    /// Returns whether nobody chose the capacity of the new filter, neither the command nor the operator. In a
    /// replicated creation, UNRESERVED decides.
    fn is_unreserved(&self, settings: &Settings) -> bool {
        let is_default =
            self.capacity_items.is_none() && settings.initial_size_items == CAPACITY_DEFAULT_ITEMS;
        (self.is_unreserved || is_default) && self.window_ms.is_none()
    }

    /// Returns whether a fixed filter accepts items when it is full. Only everbloom's own filters of bits can. A
    /// replicated creation contains SATURATE if the filter saturates, so the setting is ignored.
    fn saturates(&self, host: &dyn Host) -> bool {
        let settings = host.settings();
        let has_bits = !self.is_counting && self.window_ms.is_none();
        let is_ours = self.resolved_format(&settings) == Format::Everbloom && has_bits;
        self.is_saturating || (is_ours && settings.fixed_filters_saturate && !host.is_replicated())
    }

    /// Returns the growth of the new filter, with [`Growth::Fixed`] also for a saturating filter.
    ///
    /// As in RedisBloom, EXPANSION does not override `bf.expansion-factor 0`. It does in a replicated explicit
    /// creation, in valkey-bloom's format, and in a filter of CF.*.
    fn growth_until_full(&self, host: &dyn Host) -> Growth {
        let settings = host.settings();
        let is_overridden = || self.is_explicit() && host.is_replicated();
        match self.expansion {
            _ if self.is_fixed => Growth::Fixed,
            Some(expansion)
                if settings.expansion_factor != 0
                    || self.has_own_expansion
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

/// Returns the spec of the filter that the options describe. A missing option has the value of its setting.
pub(super) fn spec(options: &CreationOptions, host: &dyn Host) -> Result<FilterSpec, CommandError> {
    options.validate(host)?;
    let settings = host.settings();
    let promise = Promise {
        error_rate: options.error_rate.unwrap_or(settings.error_rate),
        capacity_items: options.capacity_items.unwrap_or(settings.initial_size_items),
        growth: options.growth(host),
    };
    let spec = match options.resolved_format(&settings) {
        Format::Everbloom => FilterSpec {
            policy: own_policy(options, &settings, promise),
            hash: options.hash_key(host).map_or(Hash::Murmur3, Hash::Keyed),
        },
        Format::RedisBloom => {
            let error_rate = promise.error_rate.min(redisbloom::COMMAND_ERROR_RATE_MAX);
            let promise = Promise { error_rate, ..promise };
            let policy = RedisBloom::of_promise(promise, written_growth(options, host));
            FilterSpec { policy: policy.into(), hash: Hash::RedisBloom(policy.hash()) }
        }
        Format::ValkeyBloom => {
            let tightening_ratio = options.tightening_ratio.unwrap_or(TIGHTENING_RATIO_DEFAULT);
            let seed = options.seed.unwrap_or_else(|| host.random_seed());
            let policy = ValkeyBloom::of_promise(promise, tightening_ratio).into();
            FilterSpec { policy, hash: Hash::ValkeyBloom(Seed::new(seed)) }
        }
    };
    if let Some(target_items) = options.scale_to_items {
        let outcome = validate_scale_to(&spec.policy, spec.hash, target_items, host);
        outcome.map_err(CommandError::ScaleTo)?;
    }
    Ok(spec)
}

fn own_policy(options: &CreationOptions, settings: &Settings, promise: Promise) -> Policy {
    if let Some(window_ms) = options.window_ms {
        let span = WindowLength::new(window_ms).with_steps(options.steps.unwrap_or_default());
        let window = Window::new(span, options.no_refresh);
        return Policy::promised(promise, Rules::Window(window));
    }
    let promise = if options.is_unreserved(settings) {
        // UNRESERVED without CAPACITY means the default, because a replica may have another `bf.initial-size`.
        let capacity_items = options.capacity_items.unwrap_or(CAPACITY_DEFAULT_ITEMS);
        Promise { capacity_items, growth: promise.growth.unreserved(), ..promise }
    } else {
        promise
    };
    if options.is_counting {
        let CreationOptions { bucket_size, max_iterations, .. } = *options;
        let counting = Counting { bucket_size, max_iterations, deletions: 0 };
        Policy::promised(promise, Rules::Counting(counting))
    } else {
        Policy::Everbloom(promise)
    }
}

/// Returns the growth factor that RedisBloom saves: that of EXPANSION, or the setting. RedisBloom saves it for fixed
/// filters too, which never use it. A replicated explicit command without EXPANSION means
/// [`redisbloom::RESERVED_GROWTH`].
fn written_growth(options: &CreationOptions, host: &dyn Host) -> u32 {
    match options.expansion {
        Some(expansion) => expansion,
        None if options.is_explicit() && host.is_replicated() => redisbloom::RESERVED_GROWTH,
        None => host.settings().expansion_factor,
    }
}
