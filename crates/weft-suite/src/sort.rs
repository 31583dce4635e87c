//! Vesta §5.6 (V15): FastMeshSort, as the binary's own `weft sort` does it, on growing numbers of servers.

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use serde::Deserialize;
use weft_layout::ViewOffset;

use crate::cases::{Case, Point};
use crate::cpu::CpuTime;
use crate::lead::Measured;
use crate::part::{FileShape, Part, ViewSpec};
use crate::sweep::{Place, Sweep};
use crate::target::{Stage, VolumePlace};
use crate::volume::run;
use crate::{Interface, Op, Row, SuiteError};

pub(crate) const PATTERNS: &[&str] = &["fast-mesh-sort"];

/// Bytes of the file.
const BYTES: u64 = 64 << 20;
/// Bytes that are written at once when the file is made.
const PIECE: u64 = 1 << 20;

/// What `weft sort --json` says, as far as it is told here.
#[derive(Deserialize)]
struct Sorted {
    seconds: f64,
    requests: u64,
    bytes: u64,
}

/// The points: a part says how much, not how.
pub(crate) fn points(sweep: &Sweep) -> Vec<Point> {
    let mut points = Vec::new();
    if sweep.place == Place::Path {
        return points;
    }
    for servers in sweep.servers(&[1, 2, 4]) {
        for clients in sweep.clients(&[4]) {
            for record in sweep.records(&[64]) {
                for interface in sweep.interfaces(&[Interface::Strided]) {
                    let records = (sweep.scaled(BYTES) / record / u64::from(clients)).max(1);
                    let part = Part::records(ViewSpec::Canonical, 0, record, record, records);
                    points.push(Point {
                        case: Case::Sort,
                        pattern: PATTERNS[0].to_owned(),
                        interface,
                        record,
                        servers,
                        shape: FileShape {
                            cells: servers.max(clients),
                            bsu: 64 << 10,
                        },
                        depth: 1,
                        parts: vec![part; clients as usize],
                        fill: None,
                        local: false,
                        exchange: false,
                    });
                }
            }
        }
    }
    points
}

/// Sorts a file of random records as often as asked; `program` is the binary.
pub(crate) async fn point(
    program: &Path,
    sweep: &Sweep,
    stage: &mut Stage,
    point: &Point,
) -> Result<Vec<Measured>, SuiteError> {
    let mut rounds = Vec::new();
    for round in 0..sweep.runs {
        let file = stage.create(point).await?;
        let bytes: u64 = point.parts.iter().map(Part::bytes).sum();
        if let Some(attached) = &file.file {
            let view = attached.canonical()?;
            for at in (0..bytes).step_by(PIECE as usize) {
                let length = PIECE.min(bytes - at);
                let data = random(round as u64, at, length);
                view.write_at(ViewOffset(at), data).await?;
            }
            attached.sync().await?;
        }
        let mut command = Command::new(program);
        on_volume(&mut command, stage.place().as_ref());
        command
            .args(["sort", &file.name, "--json"])
            .args(["--record", &point.record.to_string()])
            .args(["--procs", &point.parts.len().to_string()]);
        let before = CpuTime::now();
        // Not on this thread's runtime: it blocks until the sort has ended.
        let out = tokio::task::spawn_blocking(move || run(&mut command)).await;
        let out = out.map_err(|e| SuiteError::Part(e.to_string()))??;
        let cpu = CpuTime::now().share_since(before);
        let sorted: Sorted = serde_json::from_slice(&out).map_err(|e| {
            SuiteError::Part(format!("`weft sort --json` says something else: {e}"))
        })?;
        stage.remove_replaced(file).await?;
        rounds.push((sorted, cpu));
    }
    rounds.sort_by(|a, b| a.0.seconds.total_cmp(&b.0.seconds));
    let rate = |s: &Sorted| s.bytes as f64 / f64::from(1 << 20) / s.seconds.max(1e-9);
    let Some((sorted, cpu)) = rounds.get(rounds.len() / 2) else {
        return Ok(Vec::new());
    };
    let range = (rate(&rounds[rounds.len() - 1].0), rate(&rounds[0].0));
    let row = Row {
        case: point.case.name().to_owned(),
        pattern: point.pattern.clone(),
        op: Op::Write,
        interface: point.interface,
        record: point.record,
        servers: point.servers,
        clients: point.parts.len() as u32,
        bytes: sorted.bytes,
        seconds: sorted.seconds,
        mib_per_s: rate(sorted),
        messages: Some(sorted.requests),
    };
    Ok(vec![Measured {
        row,
        range,
        cpu: *cpu,
    }])
}

/// Global options that name the volume.
fn on_volume(command: &mut Command, place: Option<&VolumePlace>) {
    match place {
        Some(VolumePlace::Folder(folder)) => {
            command.arg("--volume").arg(folder);
        }
        Some(VolumePlace::Address(address, key)) => {
            command.arg("--address").arg(address);
            command.arg("--key-file").arg(key);
        }
        None => {}
    }
}

/// Bytes without any order, another file's in each round.
fn random(round: u64, at: u64, length: u64) -> Bytes {
    let mut state = (round << 48 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut data = Vec::with_capacity(length as usize + 8);
    while (data.len() as u64) < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(length as usize);
    data.into()
}
