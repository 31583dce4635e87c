//! Which rows go into which panel, what is along its axis, and what makes a line of its own.

use std::collections::{BTreeMap, BTreeSet};

use weft_layout::size::count;

use crate::{Op, Row};

/// More lines than this in a panel, and each pattern gets panels of its own.
const LINES: usize = 8;

/// A number of a row that may be along the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    Record,
    Servers,
    Clients,
}

/// One picture.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) axis: Axis,
    /// What is measured along the other axis.
    pub(super) unit: &'static str,
    /// Name and points of each line, by ascending place on the axis.
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Axis {
    const ALL: [Axis; 3] = [Axis::Record, Axis::Servers, Axis::Clients];

    fn of(self, row: &Row) -> u64 {
        match self {
            Axis::Record => row.record,
            Axis::Servers => row.servers.into(),
            Axis::Clients => row.clients.into(),
        }
    }

    fn name(self, value: u64) -> String {
        match self {
            Axis::Record => size(value as f64),
            Axis::Servers => count(value, "server"),
            Axis::Clients => count(value, "client"),
        }
    }
}

impl Panel {
    /// The panels that show these rows.
    pub(super) fn all(rows: &[Row]) -> Vec<Panel> {
        let mut by_case: Vec<(&str, Vec<&Row>)> = Vec::new();
        for row in rows {
            match by_case.iter_mut().find(|(case, _)| *case == row.case) {
                Some((_, rows)) => rows.push(row),
                None => by_case.push((&row.case, vec![row])),
            }
        }
        let mut panels = Vec::new();
        for (case, rows) in by_case {
            let together = Panel::both_ways(case, &rows);
            if together.iter().all(|p| p.lines.len() <= LINES) {
                panels.extend(together);
                continue;
            }
            let mut patterns: Vec<&str> = Vec::new();
            for row in &rows {
                if !patterns.contains(&row.pattern.as_str()) {
                    patterns.push(&row.pattern);
                }
            }
            for pattern in patterns {
                let own: Vec<&Row> = rows
                    .iter()
                    .copied()
                    .filter(|r| r.pattern == pattern)
                    .collect();
                panels.extend(Panel::both_ways(&format!("{case} {pattern}"), &own));
            }
        }
        panels
    }

    fn both_ways(title: &str, rows: &[&Row]) -> Vec<Panel> {
        let of = |op: Op| {
            rows.iter()
                .copied()
                .filter(|r| r.op == op)
                .collect::<Vec<_>>()
        };
        Op::ALL
            .into_iter()
            .map(|op| (op, of(op)))
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(op, rows)| Panel::new(format!("{title}: {}", op.name()), &rows))
            .collect()
    }

    fn new(title: String, rows: &[&Row]) -> Panel {
        let axis = widest(rows);
        let apart = telling(rows, axis);
        let many = |of: fn(&Row) -> &str| rows.iter().any(|r| of(r) != of(rows[0]));
        let patterns = many(|r| &r.pattern);
        let interfaces = many(|r| r.interface.name());
        let labels = many(|r| r.label());
        let mut lines: Vec<(String, BTreeMap<u64, f64>)> = Vec::new();
        for row in rows {
            let mut name = Vec::new();
            if labels {
                name.extend(row.label.clone());
            }
            if patterns {
                name.push(row.pattern.clone());
            }
            if interfaces || (!patterns && apart.is_empty()) {
                name.push(row.interface.name().to_owned());
            }
            name.extend(apart.iter().map(|axis| axis.name(axis.of(row))));
            let name = name.join(", ");
            let point = (axis.of(row), rate(row).0);
            match lines.iter_mut().find(|(line, _)| *line == name) {
                Some((_, points)) => points.extend([point]),
                None => lines.push((name, BTreeMap::from([point]))),
            }
        }
        let points = |line: BTreeMap<u64, f64>| line.iter().map(|(x, y)| (*x as f64, *y)).collect();
        Panel {
            title,
            axis,
            unit: rate(rows[0]).1,
            lines: lines
                .into_iter()
                .map(|(name, line)| (name, points(line)))
                .collect(),
        }
    }
}

/// What is drawn of a row: of timed calls their rate, as many of them move no bytes.
fn rate(row: &Row) -> (f64, &'static str) {
    match &row.rates {
        Some(rates) => (rates.ops_per_s, "operations/s"),
        None => (row.mib_per_s, "MiB/s"),
    }
}

/// The number with the most values.
fn widest(rows: &[&Row]) -> Axis {
    let values = |axis: &Axis| {
        let values: BTreeSet<u64> = rows.iter().map(|r| axis.of(r)).collect();
        values.len()
    };
    // Of several with as many the first.
    Axis::ALL
        .into_iter()
        .rev()
        .max_by_key(values)
        .unwrap_or(Axis::Record)
}

/// The other numbers of which there are several at one place of the axis for one pattern and
/// interface.
fn telling(rows: &[&Row], axis: Axis) -> Vec<Axis> {
    let differs = |other: &Axis| {
        let mut seen: BTreeMap<(u64, &str, &str, &str), u64> = BTreeMap::new();
        rows.iter().any(|row| {
            let pattern = row.pattern.as_str();
            let place = (axis.of(row), pattern, row.interface.name(), row.label());
            let value = other.of(row);
            *seen.entry(place).or_insert(value) != value
        })
    };
    Axis::ALL
        .into_iter()
        .filter(|other| *other != axis && differs(other))
        .collect()
}

/// A number of bytes, short.
pub(super) fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    // A whole number as one; others with a digit.
    let digits = usize::from((value - value.round()).abs() > 0.05);
    format!("{value:.digits$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interface, Rates};

    fn row(pattern: &str, interface: Interface, record: u64, servers: u32) -> Row {
        Row {
            case: "galley".into(),
            pattern: pattern.into(),
            op: Op::Read,
            interface,
            record,
            servers,
            replicas: None,
            clients: servers,
            bytes: 1,
            seconds: 1.0,
            mib_per_s: record as f64,
            messages: None,
            rates: None,
            label: None,
        }
    }

    #[test]
    fn each_measured_system_gets_its_own_line() {
        let mut rows = Vec::new();
        for label in ["weft", "rival"] {
            for record in [64, 4096] {
                let label = Some(label.to_owned());
                let row = row("interleaved", Interface::Posix, record, 4);
                rows.push(Row { label, ..row });
            }
        }
        let panels = Panel::all(&rows);
        let names: Vec<&str> = panels[0].lines.iter().map(|l| l.0.as_str()).collect();
        assert!(
            names[0].contains("weft") && names[1].contains("rival"),
            "{names:?}"
        );
        assert!(panels[0].lines.iter().all(|(_, points)| points.len() == 2));
    }

    #[test]
    fn the_most_varied_parameter_is_the_axis_and_the_others_separate_lines() {
        let mut rows = Vec::new();
        for record in [64, 1024, 4096] {
            for servers in [1, 4] {
                for interface in [Interface::Traditional, Interface::Strided] {
                    rows.push(row("interleaved", interface, record, servers));
                }
            }
        }
        let panels = Panel::all(&rows);
        assert_eq!(panels.len(), 1);
        assert_eq!(panels[0].axis, Axis::Record);
        let names: Vec<&str> = panels[0].lines.iter().map(|l| l.0.as_str()).collect();
        let servers = "1 server, 1 client";
        assert!(
            names.contains(&format!("strided, {servers}").as_str()),
            "{names:?}"
        );
        assert_eq!(names.len(), 4);
        assert_eq!(panels[0].lines[0].1.len(), 3);
    }

    #[test]
    fn timed_calls_are_drawn_as_operations_per_second_by_operation() {
        let life = [Op::Create, Op::Stat, Op::Remove].map(|op| {
            let rates = Rates {
                ops: 10,
                ops_per_s: 500.0,
                mean_us: 1.0,
                median_us: 1.0,
                p99_us: 1.0,
            };
            Row {
                op,
                rates: Some(rates),
                mib_per_s: 0.0,
                ..row("closed", Interface::Posix, 4096, 1)
            }
        });
        let panels = Panel::all(&life);
        let titles: Vec<&str> = panels.iter().map(|p| p.title.as_str()).collect();
        assert_eq!(titles, ["galley: create", "galley: stat", "galley: remove"]);
        for panel in &panels {
            assert_eq!(panel.unit, "operations/s");
            assert!((panel.lines[0].1[0].1 - 500.0).abs() < 1e-9);
        }
    }

    #[test]
    fn clients_in_proportion_to_servers_make_one_line() {
        let rows: Vec<Row> = [1, 2, 4]
            .map(|n| row("in-proportion", Interface::Traditional, 1 << 20, n))
            .into();
        let panels = Panel::all(&rows);
        assert_eq!((panels.len(), panels[0].lines.len()), (1, 1));
        assert_eq!(panels[0].axis, Axis::Servers);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [64.0, 1536.0, 65_536.0].map(size),
            ["64 B", "1.5 KiB", "64 KiB"]
        );
    }
}
