//! Progress on standard error for work longer than a second; nothing where there is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over a number of bytes.
pub(crate) fn of_bytes(what: &str, total: u64) -> ProgressBar {
    bar(
        what,
        total,
        "{msg} [{bar:30}] {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
    )
}

/// A bar over the points of a benchmark.
pub(crate) fn of_points(what: &str) -> ProgressBar {
    bar(what, 1, "[{bar:20}] {pos}/{len} {msg} {elapsed}")
}

fn bar(what: &str, total: u64, template: &str) -> ProgressBar {
    let target = if crate::output::interactive() {
        ProgressDrawTarget::stderr_with_hz(8)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let style = ProgressStyle::with_template(template).expect("the template is legal");
    bar.set_style(style.progress_chars("=> "));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
