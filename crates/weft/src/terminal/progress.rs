//! Progress of long commands on standard error: one line in a fixed format, and none without a
//! terminal.
//!
//! `WHAT [=====>    ] DONE of TOTAL, RATE, TIME left` where the total is known, else `WHAT DONE,
//! RATE, TIME so far`.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::limits::RATE_SETTLE_TIME;
use crate::terminal::output;

/// Characters of the bar between its brackets.
const WIDTH: u64 = 20;

/// What is counted.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Bytes,
    /// Things with this name.
    Things(&'static str),
}

/// Progress at one moment.
struct Snapshot {
    done: u64,
    total: Option<u64>,
    /// Done per second.
    rate: f64,
    elapsed: Duration,
}

/// A progress bar over a number of bytes; `None`: not known yet.
pub(crate) fn of_bytes(what: &str, total: impl Into<Option<u64>>) -> ProgressBar {
    bar(what, total.into(), Unit::Bytes)
}

/// A progress bar over a number of things, such as "files"; `None`: not known yet.
pub(crate) fn of_things(
    what: &str,
    things: &'static str,
    total: impl Into<Option<u64>>,
) -> ProgressBar {
    bar(what, total.into(), Unit::Things(things))
}

fn bar(what: &str, total: Option<u64>, unit: Unit) -> ProgressBar {
    let target = if output::interactive() {
        ProgressDrawTarget::stderr_with_hz(8)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(total, target);
    let show = move |state: &ProgressState, line: &mut dyn Write| {
        let far = Snapshot {
            done: state.pos(),
            total: state.len(),
            rate: state.per_sec(),
            elapsed: state.elapsed(),
        };
        // A progress line that cannot be written does no harm.
        let _ = line.write_str(&text(unit, &far));
    };
    let style = ProgressStyle::with_template("{msg} {far}").expect("the template is legal");
    bar.set_style(style.with_key("far", show));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The line behind the name of the work.
fn text(unit: Unit, far: &Snapshot) -> String {
    let rate = match unit {
        Unit::Bytes => format!("{}/s", output::scaled(far.rate)),
        Unit::Things(_) if far.rate < 10.0 => format!("{:.1}/s", far.rate),
        Unit::Things(_) => format!("{:.0}/s", far.rate),
    };
    let count = |n: u64| match unit {
        Unit::Bytes => output::bytes(n),
        Unit::Things(_) => n.to_string(),
    };
    let things = match unit {
        Unit::Bytes => String::new(),
        Unit::Things(name) => format!(" {name}"),
    };
    let Some(total) = far.total else {
        let (done, so_far) = (count(far.done), clock(far.elapsed));
        return format!("{done}{things}, {rate}, {so_far} so far");
    };
    let done = far.done.min(total);
    let full = match total {
        0 => WIDTH,
        _ => (u128::from(done) * u128::from(WIDTH) / u128::from(total)) as u64,
    };
    let bar: String = (0..WIDTH)
        .map(|at| match at {
            _ if at < full => '=',
            _ if at == full => '>',
            _ => ' ',
        })
        .collect();
    let left = if far.rate > 0.0 && far.elapsed >= RATE_SETTLE_TIME {
        let seconds = ((total - done) as f64 / far.rate).min(1e9);
        format!("{} left", clock(Duration::from_secs_f64(seconds)))
    } else {
        format!("{} so far", clock(far.elapsed))
    };
    let (done, total) = (count(done), count(total));
    format!("[{bar}] {done} of {total}{things}, {rate}, {left}")
}

/// Minutes and seconds, from an hour on hours too.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours == 0 {
        format!("{minutes}:{seconds:02}")
    } else {
        format!("{hours}:{minutes:02}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far(done: u64, total: Option<u64>, rate: f64, seconds: u64) -> Snapshot {
        Snapshot {
            done,
            total,
            rate,
            elapsed: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn progress_shows_the_time_left_if_the_total_is_known_else_the_time_so_far() {
        let mib = 1 << 20;
        let bytes = |f| text(Unit::Bytes, &f);
        assert_eq!(
            bytes(far(30 * mib, Some(120 * mib), 2.0 * mib as f64, 15)),
            "[=====>              ] 30.0 MiB of 120.0 MiB, 2.0 MiB/s, 0:45 left"
        );
        assert_eq!(
            bytes(far(30 * mib, None, 2.0 * mib as f64, 3675)),
            "30.0 MiB, 2.0 MiB/s, 1:01:15 so far"
        );
        let files = |f| text(Unit::Things("files"), &f);
        assert_eq!(
            files(far(7, Some(7), 3.5, 2)),
            "[====================] 7 of 7 files, 3.5/s, 0:00 left"
        );
        assert_eq!(
            files(far(700, None, 350.0, 2)),
            "700 files, 350/s, 0:02 so far"
        );
    }

    #[test]
    fn progress_is_shown_without_a_rate_without_work_and_past_its_total() {
        let bytes = |f| text(Unit::Bytes, &f);
        assert_eq!(
            bytes(far(0, Some(10), 0.0, 5)),
            "[>                   ] 0 B of 10 B, 0 B/s, 0:05 so far"
        );
        assert_eq!(
            bytes(far(0, Some(0), 0.0, 0)),
            "[====================] 0 B of 0 B, 0 B/s, 0:00 so far"
        );
        // A source that grows during the copy.
        assert!(bytes(far(20, Some(10), 1.0, 5)).contains("10 B of 10 B"));
    }
}
