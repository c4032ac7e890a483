//! Uses sliding-window filters while a copy is made chunk by chunk. The clocks of the primary and the replica run,
//! jump, stop and go back independently.

use everbloom_command::Settings;
use everbloom_filter::Filter;

use super::input::Input;
use crate::world::{Adding, Form, World};

const KEY: &[u8] = b"k";
/// The key into which the chunks of the filter are loaded.
const COPY: &[u8] = b"copy";
/// Initial time of the clock.
const START_MS: u64 = 1 << 40;
/// Largest number of commands of one input.
const COMMANDS_MAX: usize = 60;

/// The state of one run.
struct Run {
    world: World,
    window_ms: u64,
    steps: u64,
}

/// Makes a filter, then adds and checks items at moments that the input chooses.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.limit_bytes();
    let window_ms =
        *input.choose(&[100, 101, 1000, 14_000, 86_400_000, 49 * 86_400_000, 3653 * 86_400_000, 1 << 40]);
    let world = World::pair(Settings { max_filter_bytes: limit, ..Settings::DEFAULT }, START_MS);
    let mut run = Run { world, window_ms, steps: 14 };
    run.make(&mut input);
    for _ in 0..COMMANDS_MAX {
        if input.is_empty() || run.world.filter(KEY).is_none() {
            break;
        }
        run.step(&mut input);
        run.world.check();
    }
    while run.world.is_dumping(KEY) {
        run.world.dump(KEY, COPY);
    }
    run.world.check_all();
}

impl Run {
    fn make(&mut self, input: &mut Input<'_>) {
        let is_fixed_time = input.below(4) == 0;
        let rate = *input.choose(&["0.01", "0.3", "0.001", "1e-6"]);
        let capacity = *input.choose(&["1", "14", "100", "1000", "30000", "600000"]);
        let mut line = format!("BF.RESERVE k {rate} {capacity} PWINDOW {}", self.window_ms);
        let growth = *input.choose(&["", " NONSCALING", " EXPANSION 1", " EXPANSION 4"]);
        line.push_str(growth);
        if is_fixed_time {
            line.push_str(" NOREFRESH");
        }
        if input.below(3) == 0 {
            line.push_str(" STEPS 120");
            self.steps = 120;
        }
        self.world.make(&line.split(' ').collect::<Vec<_>>());
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (step_ms, now_ms) = (self.step_ms(input), self.world.now_ms());
        let now_ms = if input.below(8) == 0 {
            now_ms.saturating_sub(step_ms).max(1)
        } else {
            now_ms.saturating_add(step_ms).min(1 << 45)
        };
        // The replica's clock may have any time, since commands carry the filter's time.
        let replica_ms = match input.below(4) {
            0 => now_ms / 2,
            1 => now_ms + 2 * self.window_ms,
            _ => now_ms,
        };
        self.world.set_clocks(now_ms, replica_ms);
        match input.below(32) {
            0..=5 => self.add(KEY, Form::Many, input.items(40)),
            6 | 7 => self.add(KEY, Form::Packed, input.items(60)),
            8..=10 => {
                let back_ms = self.step_ms(input);
                let is_future = input.below(4) == 0;
                let at_ms =
                    if is_future { now_ms.saturating_add(back_ms) } else { now_ms.saturating_sub(back_ms) };
                let adding = Adding { form: Form::Insert, at_ms: Some(at_ms), ..Adding::default() };
                self.world.add(KEY, adding, &input.items(20));
            }
            11 | 12 => self.world.ask(KEY, &input.items(30)),
            13 => {
                self.world.clear(KEY);
                // The chunks belong to a filter that no longer exists.
                self.world.delete(COPY);
            }
            14 => {
                let reading = *input.choose(&["BF.STATS k", "BF.INFO k", "BF.CARD k", "BF.DEBUG k"]);
                self.world.run(reading);
            }
            15 => self.world.check_all(),
            16 => self.world.synchronise_all(),
            17..=20 => _ = self.world.dump(KEY, COPY),
            24 | 25 => {
                let size_bytes = self.world.filter(KEY).map_or(0, Filter::size_bytes);
                self.world.limit(input.tight_limit_bytes(size_bytes));
            }
            26..=29 => self.add_with_options(input),
            30 | 31 => {
                let within_ms = 1 + self.step_ms(input).min(self.window_ms - 1);
                self.world.ask_lately(KEY, within_ms, &input.items(10));
            }
            _ => self.add_to_copy(input),
        }
    }

    fn add(&mut self, key: &[u8], form: Form, items: Vec<Vec<u8>>) {
        self.world.add(key, Adding { form, ..Adding::default() }, &items);
    }

    /// Adds items to the copy, with the current time or an earlier one. It takes nothing before its last chunk has come.
    fn add_to_copy(&mut self, input: &mut Input<'_>) {
        let items = input.items(40);
        let is_loading = self.world.has(COPY) && self.world.filter(COPY).is_none();
        let back_ms = if input.below(3) == 0 { self.step_ms(input) } else { 0 };
        let at_ms = (back_ms > 0).then(|| self.world.latest_time(COPY).saturating_sub(back_ms));
        let form = if at_ms.is_some() { Form::Insert } else { Form::Many };
        if self.world.has(COPY) {
            self.world.add(COPY, Adding { form, at_ms, ..Adding::default() }, &items);
            let is_said = self.world.server().reply[0].starts_with("-ERR the filter is being loaded");
            assert_eq!(is_said, is_loading);
        }
    }

    /// Returns a step of time, most of the time a small part of the window.
    fn step_ms(&self, input: &mut Input<'_>) -> u64 {
        let part = u64::from(input.u16());
        match input.below(12) {
            0 => self.window_ms.saturating_mul(part) >> 12,
            1 => 49 * 86_400_000,
            2 => self.window_ms / self.steps,
            3 => self.window_ms,
            4 => self.window_ms + self.window_ms / self.steps,
            5..=7 => 0,
            _ => (self.window_ms >> 4).saturating_mul(part) >> 16,
        }
    }

    /// Adds items with lives of their own, or only those that are absent.
    fn add_with_options(&mut self, input: &mut Input<'_>) {
        let life_ms = match input.below(4) {
            0 => None,
            1 => Some(self.window_ms),
            2 => Some((1 + self.window_ms / self.steps).min(self.window_ms)),
            _ => Some(1 + self.step_ms(input).min(self.window_ms - 1)),
        };
        let if_absent = input.below(3) == 0;
        let form = *input.choose(&[Form::Add, Form::Packed, Form::Insert]);
        let items = input.items(if form == Form::Add { 1 } else { 40 });
        self.world.add(KEY, Adding { form, life_ms, if_absent, ..Adding::default() }, &items);
    }
}
