//! Vesta §5.6: FastMeshSort, as the binary's own `weft sort` does it, on growing numbers of
//! servers; on a path the same sort by POSIX calls.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use weft_layout::ViewOffset;

use crate::cpu::CpuTime;
use crate::error::SuiteError;
use crate::place::VolumePlace;
use crate::point::Point;
use crate::row::{Measured, Op, Row};
use crate::sweep::{Sweep, TargetKind};
use crate::target::{BenchFile, OpenTarget};
use crate::volume::failed;
use crate::workload::Workload;

/// Bytes that are written at once when the file is made.
const FILL_BYTES: u64 = 1 << 20;

/// The fields of `weft sort --json` that a row needs.
#[derive(Deserialize)]
struct Sorted {
    seconds: f64,
    requests: u64,
    bytes: u64,
}

/// Sorts a file of random records as often as asked; `program` is the binary.
pub(crate) async fn point(
    program: &Path,
    sweep: &Sweep,
    stage: &mut OpenTarget,
    point: &Point,
) -> Result<Vec<Measured>, SuiteError> {
    let mut rounds = Vec::new();
    for round in 0..sweep.runs {
        let file = stage.create(point).await?;
        let bytes: u64 = point.parts.iter().map(Workload::bytes).sum();
        fill(&file, round as u64, bytes).await?;
        let mut command = Command::new(program);
        if let Some(path) = file.path() {
            command.arg("sort-path").arg(path);
        } else {
            on_volume(&mut command, stage.place().as_ref());
            command.args(["sort", &file.name]);
        }
        command
            .args(["--record", &point.record.to_string(), "--json"])
            .args(["--procs", &point.parts.len().to_string()]);
        let before = CpuTime::now();
        let out = run(command).await?;
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
        servers: sweep.known(point.servers),
        clients: point.parts.len() as u32,
        bytes: sorted.bytes,
        seconds: sorted.seconds,
        mib_per_s: rate(sorted),
        rates: None,
        messages: (sweep.place != TargetKind::Path).then_some(sorted.requests),
        replicas: None,
        label: None,
    };
    Ok(vec![Measured {
        row,
        range,
        cpu: *cpu,
    }])
}

/// Fills the file with random bytes, and syncs it.
async fn fill(file: &BenchFile, round: u64, bytes: u64) -> Result<(), SuiteError> {
    let pieces = (0..bytes)
        .step_by(FILL_BYTES as usize)
        .map(|at| (at, random(round, at, FILL_BYTES.min(bytes - at))));
    match (file.path(), file.attached()) {
        (Some(path), _) => {
            let filled = File::create(path).and_then(|mut file| {
                for (_, data) in pieces {
                    file.write_all(&data)?;
                }
                file.sync_all()
            });
            filled.map_err(SuiteError::local("cannot fill", path))?;
        }
        (None, Some(attached)) => {
            let view = attached.canonical()?;
            for (at, data) in pieces {
                view.write_at(ViewOffset(at), data).await?;
            }
            attached.sync().await?;
        }
        (None, None) => {}
    }
    Ok(())
}

/// A sort that runs. Dropped before its end it is interrupted, and has removed its files when the
/// drop is done.
struct Sort(Child);

impl Drop for Sort {
    fn drop(&mut self) {
        let process = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        // Nothing to do where it has ended already.
        let Some(process) = process else { return };
        kill_process(process, Signal::TERM).ok();
        for _ in 0..2000 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.start_kill().ok();
    }
}

/// Runs a sort to its end; what it printed.
async fn run(command: Command) -> Result<Vec<u8>, SuiteError> {
    let mut command = tokio::process::Command::from(command);
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let program = command.as_std().get_program().to_owned();
    let sort = command.spawn();
    let mut sort = Sort(sort.map_err(SuiteError::local("cannot run", &program))?);
    let (stdout, stderr) = (sort.0.stdout.take(), sort.0.stderr.take());
    let ended = tokio::try_join!(all(stdout), all(stderr), sort.0.wait());
    let (out, said, status) = ended.map_err(SuiteError::local("cannot run", program))?;
    if status.success() {
        Ok(out)
    } else {
        Err(failed(command.as_std(), &said))
    }
}

/// Everything that a program prints.
async fn all(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut printed = Vec::new();
    if let Some(mut from) = from {
        from.read_to_end(&mut printed).await?;
    }
    Ok(printed)
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
