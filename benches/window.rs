//! Measures the memory of a sliding-window filter over a simulated day of uneven traffic, which takes a minute.

use std::thread;
use std::time::{Duration, Instant};

use redis::Pipeline;

use super::filters::{ERROR_RATE, item, pipelines};
use super::record::{Case, Progress, Record};
use super::server::Server;
use super::{Failure, Plan};

/// The steps of the measured day. Some steps before it fill the window of two hours.
const STEPS_PER_DAY: u64 = 960;
const STEPS_PER_WINDOW: u64 = STEPS_PER_DAY / 12;
/// Steps from one measurement to the next: a quarter of an hour.
const STEPS_PER_MEASUREMENT: u64 = 10;
/// The number of filters that a client rotates to have a window without a sliding-window filter. One is for the current
/// seventh of the window, the others for the last window.
const ROTATING: u64 = 8;
/// The number of keys in the measurement of a key per item.
const KEYS: u64 = 100_000;

pub(crate) fn measure(plan: &Plan, server: &mut Server, record: &mut Record) -> Result<(), Failure> {
    let (step_time, items_per_step) =
        if plan.is_quick { (Duration::from_millis(5), 50.0) } else { (Duration::from_millis(50), 2_000.0) };
    let steps = STEPS_PER_WINDOW + STEPS_PER_DAY;
    let traffic: Vec<u64> = (0..steps).map(|step| items_in(step, items_per_step)).collect();
    let mut progress = Progress::new("window", usize::try_from(steps / STEPS_PER_MEASUREMENT)?);
    let window_ms = u128::from(STEPS_PER_WINDOW) * step_time.as_millis();
    server.say("FLUSHALL")?;
    server.say(&format!(
        "BF.RESERVE window {ERROR_RATE} {} PWINDOW {window_ms}",
        items_per_step * STEPS_PER_WINDOW as f64
    ))?;
    let mut number: u64 = 0;
    let start = Instant::now();
    for (step, items) in (0..).zip(&traffic) {
        let begin = start + step_time * u32::try_from(step)?;
        thread::sleep(begin.saturating_duration_since(Instant::now()));
        for commands in pipelines("BF.MADD", |_| "window".to_owned(), 100, number..number + items) {
            server.send(&commands)?;
        }
        number += items;
        if step % STEPS_PER_MEASUREMENT > 0 {
            continue;
        }
        progress.step("a day of traffic");
        if let Some(before) = step.checked_sub(STEPS_PER_WINDOW) {
            let in_window =
                traffic.iter().skip(usize::try_from(before)?).take(usize::try_from(STEPS_PER_WINDOW)? + 1);
            let live: u64 = in_window.sum();
            let bytes = server.size_bytes("window")?;
            record.push(case(server, "window", before, "items"), live as f64);
            record.push(case(server, "window", before, "bytes"), bytes);
        }
    }
    // Each filter must be large enough for the busiest part of a window. Their error rates add up.
    let part_steps = usize::try_from(STEPS_PER_WINDOW.div_ceil(ROTATING - 1))?;
    let items = traffic.windows(part_steps).map(|part| part.iter().sum::<u64>()).max().ok_or("no traffic")?;
    let rate = ERROR_RATE / ROTATING as f64;
    server.say(&format!("BF.RESERVE part {rate} {items} NONSCALING"))?;
    let bytes = server.size_bytes("part")? * ROTATING as f64;
    record.push(case(server, "eight rotating filters", 0, "bytes"), bytes);
    server.say("FLUSHALL")?;
    let key_bytes = key_bytes(server)?;
    record.push(case(server, "keys with an expiry", 0, "bytes per item"), key_bytes);
    progress.end();
    Ok(())
}

/// Returns the memory of a key with an expiry and an empty value.
fn key_bytes(server: &mut Server) -> Result<f64, Failure> {
    let empty_bytes = server.used_bytes()?;
    let numbers: Vec<u64> = (0..KEYS).collect();
    for numbers in numbers.chunks(10_000) {
        let mut commands = Pipeline::new();
        for number in numbers {
            commands.cmd("SET").arg(item(*number)).arg("").arg("EX").arg(7200);
        }
        server.send(&commands)?;
    }
    let used_bytes = server.used_bytes()?;
    server.say("FLUSHALL")?;
    Ok((used_bytes - empty_bytes) / KEYS as f64)
}

fn case(server: &Server, filter: &'static str, step: u64, measure: &'static str) -> Case {
    let hour = step as f64 * 24.0 / STEPS_PER_DAY as f64;
    Case::new(server, filter, 0, &format!("window, hour {hour:05.2}"), measure)
}

/// Returns the number of new items in a step. It is smallest at 4:00 and largest at 16:00, and three times as large
/// from 20:00 to 21:00.
fn items_in(step: u64, items_per_step: f64) -> u64 {
    let hour = (step + STEPS_PER_DAY - STEPS_PER_WINDOW) % STEPS_PER_DAY;
    let hour = hour as f64 * 24.0 / STEPS_PER_DAY as f64;
    let daily = 1.0 - 0.9 * (std::f64::consts::TAU * (hour - 4.0) / 24.0).cos();
    let burst = if (20.0..21.0).contains(&hour) { 3.0 } else { 1.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 10^5")]
    let items = (items_per_step * daily * burst) as u64;
    items
}
