//! What the callbacks of the server do with each kind of value.

use std::os::raw::c_int;
use std::ptr;

use crate::config::settings;
use crate::followers::Followers;
use crate::huge_pages::{LargePages, has_large_arrays};
use crate::log;
use crate::memory::LoadLimit;
use crate::pagemap::ProcessMemory;
use crate::server::{now_ms, random_number};
use crate::stats::{OtherType, TOTALS};
use everbloom_command::totals::CountedFilter;
use everbloom_filter::cuckoo::array::CuckooRelease;
use everbloom_filter::cuckoo::filter::CuckooFilter;
use everbloom_filter::filter::dumps::Remembered;
use everbloom_filter::filter::loading::FilterValue;
use everbloom_filter::table::LoadError;
use everbloom_filter::{Blocks, ByteLimit, Filter, Format, OutOfMemory};
use everbloom_format::carried::{Carried, CarriedType};
use everbloom_format::chunks::Rewritten;
use everbloom_format::redisbloom::cuckoo;
use everbloom_format::{self, DecodeError, Sink, Source};

/// A value that the server can hold.
pub(crate) trait StoredValue: Blocks + Sized {
    /// What this server keeps beside the value: its part of the statistics, and more.
    type State;

    /// Counts a new value in the statistics. Returns its state.
    fn counted(&self) -> Self::State;

    /// Removes the value from the statistics.
    fn uncount(&self, state: &Self::State);

    /// Returns the bytes of the content. O(layers).
    fn content_bytes(&self) -> u64;

    /// Writes the fields of the value to a snapshot.
    fn save(&self, sink: &mut impl Sink);

    /// Calls `emit` with the commands that recreate the value, in order.
    fn rewrite(&self, emit: &mut dyn FnMut(Rewritten<'_>)) -> Result<(), OutOfMemory>;

    /// Calls `add` with strings of bytes that differ if values differ.
    fn digest(&self, add: &mut dyn FnMut(&[u8]));

    fn try_clone(&self) -> Result<Self, OutOfMemory>;
}

/// A data type: its name and encoding version in the server, and its values.
pub(super) trait ServerType {
    /// The values.
    type Value: StoredValue;
    /// Exactly nine characters.
    const NAME: &'static str;
    /// The encoding version that is written.
    const ENCODING_VERSION: c_int;

    /// Reads the fields of a value.
    ///
    /// # Errors
    /// What the log says.
    fn load(version: c_int, source: &mut impl Source, limit: &LoadLimit) -> Result<Self::Value, String>;
}

/// Returns the text of an error that names the type of the value.
fn of_type<T: ServerType>(error: DecodeError) -> String {
    format!("a value of the type {}: {error}", T::NAME)
}

/// The data type of filters of the format at a place among all formats.
pub(super) struct FilterType<const PLACE: usize>;

impl<const PLACE: usize> FilterType<PLACE> {
    #[expect(clippy::indexing_slicing, reason = "a place without a format does not compile")]
    const FORMAT: Format = Format::ALL[PLACE];
}

impl<const PLACE: usize> ServerType for FilterType<PLACE> {
    type Value = FilterValue;
    const NAME: &'static str = everbloom_format::DataType::of(Self::FORMAT).name;
    const ENCODING_VERSION: c_int = everbloom_format::DataType::of(Self::FORMAT).encoding_version;

    fn load(version: c_int, source: &mut impl Source, limit: &LoadLimit) -> Result<FilterValue, String> {
        let text = |error: DecodeError| error.to_string();
        let mut value = everbloom_format::value::load(Self::FORMAT, version, source, limit).map_err(text)?;
        if limit.is_from_client() && value.is_ahead_of(now_ms()) {
            return Err(text(LoadError::Ahead.into()));
        }
        if settings().assume_redisbloom_1_1 {
            value.filter_mut().assume_redisbloom_1_1();
        }
        Ok(value)
    }
}

/// The state of a filter. Saving does not read it, so that reading commands may change it meanwhile.
pub(crate) struct FilterState {
    /// The filter's part of the statistics.
    pub(crate) counted: CountedFilter,
    /// What most filters do not have.
    pub(crate) rare: Option<Box<RareState>>,
}

/// What is kept beside few filters: those with large arrays, and those that were dumped.
#[derive(Default)]
pub(crate) struct RareState {
    /// The state of the filter's huge pages.
    pub(crate) pages: LargePages,
    /// What reading commands remember.
    pub(crate) remembered: Remembered,
    /// The changes of the filter, if somebody follows it.
    pub(crate) followers: Followers,
}

impl FilterState {
    /// Begins to count items for huge pages if the filter had no large array and has got one.
    pub(crate) fn after_growth(&mut self, filter: &Filter) {
        if has_large_arrays(filter) {
            self.rare.get_or_insert_default().pages.after_growth(filter);
        }
    }

    /// Returns what reading commands remember.
    pub(crate) fn remembered_mut(&mut self) -> &mut Remembered {
        &mut self.rare.get_or_insert_default().remembered
    }
}

impl StoredValue for FilterValue {
    type State = FilterState;

    fn counted(&self) -> FilterState {
        let mut state = FilterState { counted: CountedFilter::count(&TOTALS, self), rare: None };
        state.after_growth(self.filter());
        state
    }

    fn uncount(&self, state: &FilterState) {
        state.counted.uncount(&TOTALS, self);
    }

    fn content_bytes(&self) -> u64 {
        self.size_bytes()
    }

    fn save(&self, sink: &mut impl Sink) {
        everbloom_format::value::save(self, sink, ProcessMemory);
    }

    fn rewrite(&self, emit: &mut dyn FnMut(Rewritten<'_>)) -> Result<(), OutOfMemory> {
        everbloom_format::value::rewrite(self, ProcessMemory, random_number(), emit)
    }

    fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        everbloom_format::value::digest(self, ProcessMemory, add);
    }

    fn try_clone(&self) -> Result<Self, OutOfMemory> {
        self.try_clone(ProcessMemory)
    }
}

/// The data type of cuckoo filters.
pub(super) struct CuckooType;

impl ServerType for CuckooType {
    type Value = CuckooFilter;
    const NAME: &'static str = cuckoo::TYPE_NAME;
    const ENCODING_VERSION: c_int = cuckoo::ENCODING_VERSION;

    fn load(version: c_int, source: &mut impl Source, limit: &LoadLimit) -> Result<CuckooFilter, String> {
        let filter = cuckoo::load(version, source, limit).map_err(of_type::<Self>)?;
        if filter.release() == CuckooRelease::Old {
            let text = "its items are found, but it takes no more: add them again to a new filter";
            log::throttled(&log::OLD_CUCKOO, ptr::null_mut(), text);
        }
        Ok(filter)
    }
}

impl StoredValue for CuckooFilter {
    /// The bytes with which the filter was counted.
    type State = u64;

    fn counted(&self) -> u64 {
        OtherType::Cuckoo.count(self.content_bytes())
    }

    fn uncount(&self, counted_bytes: &u64) {
        OtherType::Cuckoo.uncount(*counted_bytes);
    }

    fn content_bytes(&self) -> u64 {
        self.slots_bytes()
    }

    fn save(&self, sink: &mut impl Sink) {
        cuckoo::save(self, sink);
    }

    fn rewrite(&self, emit: &mut dyn FnMut(Rewritten<'_>)) -> Result<(), OutOfMemory> {
        cuckoo::rewrite(self, emit)
    }

    fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        cuckoo::digest(self, add);
    }

    fn try_clone(&self) -> Result<Self, OutOfMemory> {
        self.try_clone()
    }
}

/// The data type at a place among the carried types.
pub(super) struct CarriedAt<const PLACE: usize>;

impl<const PLACE: usize> CarriedAt<PLACE> {
    #[expect(clippy::indexing_slicing, reason = "a place without a type does not compile")]
    const TYPE: CarriedType = CarriedType::ALL[PLACE];
}

impl<const PLACE: usize> ServerType for CarriedAt<PLACE> {
    type Value = Carried;
    const NAME: &'static str = Self::TYPE.name();
    const ENCODING_VERSION: c_int = CarriedType::ENCODING_VERSION;

    fn load(version: c_int, source: &mut impl Source, _limit: &LoadLimit) -> Result<Carried, String> {
        Carried::load(Self::TYPE, version, source).map_err(of_type::<Self>)
    }
}

impl StoredValue for Carried {
    /// The bytes with which the value was counted.
    type State = u64;

    fn counted(&self) -> u64 {
        OtherType::Carried(self.carried_type()).count(self.content_bytes())
    }

    fn uncount(&self, counted_bytes: &u64) {
        OtherType::Carried(self.carried_type()).uncount(*counted_bytes);
    }

    fn content_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn save(&self, sink: &mut impl Sink) {
        Self::save(self, sink);
    }

    fn rewrite(&self, emit: &mut dyn FnMut(Rewritten<'_>)) -> Result<(), OutOfMemory> {
        emit(Rewritten::Payload(&self.payload()?));
        Ok(())
    }

    fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        add(self.bytes());
    }

    fn try_clone(&self) -> Result<Self, OutOfMemory> {
        self.try_clone()
    }
}
