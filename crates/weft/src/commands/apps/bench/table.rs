//! The table of results for people.

use anyhow::Result;
use weft_suite::Measured;

use crate::terminal::output;

/// Prints a row for each measured point; of timed calls also their rates.
pub(super) fn show(measured: &[Measured]) -> Result<()> {
    let timed = measured.iter().any(|m| m.row.rates.is_some());
    let mut columns = vec![
        "pattern",
        "op",
        "interface",
        "record",
        "servers",
        "replicas",
        "clients",
        "bytes",
        "seconds",
        "MiB/s",
    ];
    if timed {
        columns.push("ops/s");
    }
    columns.push("(from-to)");
    if timed {
        columns.extend(["mean µs", "median µs", "99 % µs"]);
    }
    columns.extend(["messages", "cpu"]);
    let mut table = output::table(&columns);
    for Measured { row, range, cpu } in measured {
        let mut cells = vec![
            row.pattern.clone(),
            row.op.name().to_owned(),
            row.interface.name().to_owned(),
            output::bytes(row.record),
            if row.servers == 0 {
                "-".to_owned()
            } else {
                row.servers.to_string()
            },
            row.replicas
                .map_or_else(|| "-".to_owned(), |n| n.to_string()),
            row.clients.to_string(),
            output::bytes(row.bytes),
            format!("{:.3}", row.seconds),
            format!("{:.1}", row.mib_per_s),
        ];
        match &row.rates {
            Some(rates) => {
                cells.push(format!("{:.0}", rates.ops_per_s));
                cells.push(format!("({:.0}-{:.0})", range.0, range.1));
                let durations = [rates.mean_us, rates.median_us, rates.p99_us];
                cells.extend(durations.map(|time| format!("{time:.1}")));
            }
            None => cells.push(format!("({:.1}-{:.1})", range.0, range.1)),
        }
        cells.push(
            row.messages
                .map_or_else(|| "-".to_owned(), |n| n.to_string()),
        );
        cells.push(format!("{:.0} %", 100.0 * cpu));
        table.add_row(cells);
    }
    output::line(table)
}
