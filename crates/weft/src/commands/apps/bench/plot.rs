//! `weft bench plot`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use weft_suite::Row;

/// Plot the results that `weft bench --json` printed
#[derive(Args)]
pub(super) struct Plot {
    /// Files with the output of `weft bench --json`
    #[arg(value_name = "ROWS.json", required = true)]
    rows: Vec<PathBuf>,
    /// The plot file, whose name ends in .svg or .png
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl Plot {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let mut files: Vec<(String, Vec<Row>)> = Vec::new();
        for path in &self.rows {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let rows: Vec<Row> = serde_json::from_str(&text).with_context(|| {
                format!(
                    "{} does not hold the output of `weft bench --json`",
                    path.display()
                )
            })?;
            let name = path.file_stem().unwrap_or_default();
            files.push((name.to_string_lossy().into_owned(), rows));
        }
        weft_suite::plot(&labelled(files), &self.output)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// All rows. Where rows of several files would share a line of the plot, rows without a label are
/// labelled by their file.
fn labelled(mut files: Vec<(String, Vec<Row>)>) -> Vec<Row> {
    let meet = |one: &[Row], other: &[Row]| {
        let mut pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        pairs.any(|(a, b)| a.is_same_point(b) && a.label == b.label)
    };
    let several = (1..files.len()).any(|n| {
        let (before, rest) = files.split_at(n);
        before.iter().any(|file| meet(&file.1, &rest[0].1))
    });
    for (name, rows) in files.iter_mut().filter(|_| several) {
        for row in rows {
            row.label.get_or_insert_with(|| name.clone());
        }
    }
    files.into_iter().flat_map(|(_, rows)| rows).collect()
}
