//! Measures for how long BF.MERGE of two large filters occupies the main thread.

use super::big::{Fact, main_thread_ms};
use super::failure::Failure;
use super::filters;
use super::plan::{Plan, Programs};
use super::process::Launch;
use super::progress::Progress;
use super::sample::Samples;
use super::series::{Scope, Series, Size};
use super::text::two_digits;

/// The goal: bytes per second, counting the bytes of both filters.
const GOAL_BYTES_PER_SECOND: f64 = 5e9;

/// Merges two half-full filters in their own server.
pub(crate) fn measure(
    plan: &Plan,
    programs: &Programs,
    progress: &mut Progress,
) -> Result<Vec<Fact>, Failure> {
    let size = Size { known: 0, ..plan.big };
    let series = Series::new("everbloom", 0, &[], Scope::All);
    let server = Launch::new(&programs.server, &[&programs.module])?.pinned().start()?;
    progress.step("merge: fill");
    filters::make(&server, &series, &size)?;
    let (one, mut client) = (size.key(&series), server.client()?);
    let size_bytes = filters::load_other_half(&mut client, "other", &size)?;
    let mut milliseconds = Samples::default();
    for round in 0..plan.rounds {
        progress.step(&format!("merge: round {}", round + 1));
        // A destination that already contains the other filter would not be merged again.
        client.say(&format!("COPY {one} dest"))?;
        milliseconds.push(main_thread_ms(&mut client, "bf.merge", "BF.MERGE dest other")?);
        client.say("UNLINK dest")?;
    }
    let bytes = 2.0 * size_bytes as f64;
    let gb_per_second = |milliseconds: f64| bytes / milliseconds / 1e6;
    let (median, [fastest, slowest]) = (milliseconds.median(), milliseconds.range());
    let times = [median, fastest, slowest].map(two_digits);
    let value = format!("{} ms, {} to {} ms", times[0], times[1], times[2]);
    let limit = Some((median, bytes / GOAL_BYTES_PER_SECOND * 1e3, "ms"));
    let rates = [median, slowest, fastest].map(gb_per_second).map(two_digits);
    Ok(vec![
        Fact { what: "BF.MERGE of two filters, main thread", value, limit },
        Fact {
            what: "BF.MERGE: bytes of both filters",
            value: format!("{} GB/s, {} to {} GB/s", rates[0], rates[1], rates[2]),
            limit: None,
        },
    ])
}
