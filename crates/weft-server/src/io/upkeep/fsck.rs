//! What a server reports to `weft fsck`: its cells, its checkpoints, and whether its store is
//! consistent.

use weft_kv::EngineFile;
use weft_layout::{CellIndex, FileId};
use weft_proto::fsck::{
    CellState, CheckStoreReply, CheckStoreRequest, CheckpointedState, Fault, Finding,
    ListCellsReply, ListCellsRequest, ListKeptReply, ListKeptRequest, WhichDeletedReply,
    WhichDeletedRequest,
};
use weft_proto::io::ForkPlace;
use weft_proto::{Code, Failure, limits};
use weft_store::{
    CheckOptions, CheckPass, ForkKey, ForkStatus, MissingChunk, StoreError, Timestamp,
};

use super::store_check::StoreCheck;
use crate::failure;
use crate::io::IoService;
use crate::io::job::{file_id, fork_name};
use crate::limits::{CHECK_INDEX_BYTES, FSCK_PAGE};

fn cell(key: &ForkKey, status: Option<ForkStatus>) -> CellState {
    CellState {
        file: key.file.0,
        cell: key.cell.0,
        fork: key.fork.as_str().to_owned(),
        length: status.map_or(0, |s| s.length),
        modified: status.map_or(0, |s| s.modified.0),
        chunk: status.map_or(0, |s| s.chunk),
    }
}

fn kept(file: FileId, number: u64, made: Timestamp) -> CheckpointedState {
    CheckpointedState {
        file: file.0,
        number,
        made: made.0,
    }
}

/// Names the checkpoint that has a fork.
fn checkpoint_name(checkpoint: Option<u64>) -> String {
    match checkpoint {
        None => String::new(),
        Some(0) => "of a dropped checkpoint".to_owned(),
        Some(number) => format!("as checkpoint {number} has it"),
    }
}

/// A finding of the store, for `weft fsck`. `done`: how it was repaired.
pub fn finding_on_the_wire(finding: weft_store::Finding, done: Option<String>) -> Finding {
    use weft_store::Fault as F;
    let recipe_of = finding.key.of_recipe();
    let key = recipe_of.as_ref().unwrap_or(&finding.key);
    let (mut expected, mut found) = (0, 0);
    let (fault, text) = match finding.fault {
        F::Checksum => (Fault::Checksum, String::new()),
        F::Name => (Fault::Checksum, F::NOT_ITS_NAME.to_owned()),
        F::Unreadable { reason } => (Fault::Unreadable, reason),
        F::Entry { reason } => (Fault::Entry, reason),
        F::Lost { range, checkpoint } => {
            (expected, found) = (range.start, range.end - range.start);
            (Fault::Lost, checkpoint_name(checkpoint))
        }
        F::Unproven { range, checkpoint } => {
            (expected, found) = (range.start, range.end - range.start);
            (Fault::Unproven, checkpoint_name(checkpoint))
        }
        F::Beyond => (Fault::Beyond, String::new()),
        F::Free => (Fault::Free, String::new()),
        F::Twice => (Fault::Twice, String::new()),
        F::Inherited => (Fault::Inherited, String::new()),
        F::Tree { reason } => (Fault::Tree, reason),
    };
    Finding {
        fault: fault as i32,
        file: key.file.0,
        place: Some(ForkPlace {
            cell: key.cell.0,
            fork: key.fork.as_str().to_owned(),
        }),
        chunk: Some(finding.chunk),
        first: finding.blocks.start,
        blocks: finding.blocks.len() as u32,
        disk: finding.disk.into(),
        block: finding.place,
        expected,
        found,
        text,
        repaired: done.is_some(),
        done: done.unwrap_or_default(),
        ..Finding::default()
    }
}

/// A chunk that a recipe names and that is not stored.
fn missing_on_the_wire(missing: &MissingChunk) -> Finding {
    let kept = checkpoint_name(missing.checkpoint);
    Finding {
        fault: Fault::Entry as i32,
        file: missing.key.file.0,
        place: Some(ForkPlace {
            cell: missing.key.cell.0,
            fork: missing.key.fork.as_str().to_owned(),
        }),
        chunk: Some(missing.chunk),
        text: format!(
            "the addressed chunk {} is missing or damaged {kept}",
            missing.name
        ),
        ..Finding::default()
    }
}

impl IoService {
    pub(in crate::io) async fn list_cells(
        &self,
        request: ListCellsRequest,
    ) -> Result<ListCellsReply, Failure> {
        let file = file_id(request.file)?;
        let after = match request.after {
            None => None,
            Some(place) => Some(ForkKey {
                file,
                cell: CellIndex(place.cell),
                fork: fork_name(&place.fork)?,
            }),
        };
        if request.only {
            return self.cells_of(file, after.as_ref()).await;
        }
        if request.file == 0 && after.is_none() {
            // Brings what is stored by now into the index.
            let begun = self.store.check_begin().await;
            begun.map_err(|e| failure::of_store(&e))?;
        }
        let (cells, more) = self
            .store
            .list_forks(file, after.as_ref(), FSCK_PAGE)
            .map_err(|e| failure::of_store(&e))?;
        let cells = cells
            .into_iter()
            .map(|(key, status)| cell(&key, status))
            .collect();
        Ok(ListCellsReply {
            cells,
            more,
            doubted_below: self.store.absent_doubted_below().map_or(0, |f| f.0),
            doubted_ends: false,
        })
    }

    async fn cells_of(
        &self,
        file: FileId,
        after: Option<&ForkKey>,
    ) -> Result<ListCellsReply, Failure> {
        let mut forks = match self.store.forks(file).await {
            // A file that was deleted has no cells.
            Err(weft_store::StoreError::Stale { .. }) => Vec::new(),
            forks => forks.map_err(|e| failure::of_store(&e))?,
        };
        forks.retain(|(key, _)| after.is_none_or(|after| key > after));
        forks.sort_by(|(a, _), (b, _)| a.cmp(b));
        let more = forks.len() > FSCK_PAGE;
        let cells = forks
            .into_iter()
            .take(FSCK_PAGE)
            .map(|(key, status)| cell(&key, Some(status)));
        Ok(ListCellsReply {
            cells: cells.collect(),
            more,
            doubted_below: if self.store.doubts_absent(file) {
                file.0.saturating_add(1)
            } else {
                0
            },
            doubted_ends: self.store.doubts_ends(file, None),
        })
    }

    pub(in crate::io) fn list_kept(
        &self,
        request: ListKeptRequest,
    ) -> Result<ListKeptReply, Failure> {
        let file = file_id(request.file)?;
        if request.only {
            let all = self.store.checkpoints_of(file).into_iter();
            let mut all: Vec<_> = all.filter(|(number, _)| *number > request.number).collect();
            let more = all.len() > FSCK_PAGE;
            all.truncate(FSCK_PAGE);
            let kept = all
                .into_iter()
                .map(|(number, made)| kept(file, number, made))
                .collect();
            return Ok(ListKeptReply { kept, more });
        }
        let page = self.store.list_checkpoints(file, request.number, FSCK_PAGE);
        let (found, more) = page.map_err(|e| failure::of_store(&e))?;
        let kept = found
            .into_iter()
            .map(|(file, number, made)| kept(file, number, made))
            .collect();
        Ok(ListKeptReply { kept, more })
    }

    pub(in crate::io) fn which_deleted(&self, request: &WhichDeletedRequest) -> WhichDeletedReply {
        let asked: Vec<FileId> = request.files.iter().copied().map(FileId).collect();
        let deleted = self.store.deleted_of(&asked).into_iter();
        WhichDeletedReply {
            files: deleted.map(|file| file.0).collect(),
        }
    }

    /// Verifies some files of the index, and removes them from `files`.
    async fn check_index(&self, files: &mut Vec<EngineFile>) -> Result<Vec<Finding>, StoreError> {
        let (mut read, mut findings) = (0, Vec::new());
        while read < CHECK_INDEX_BYTES && findings.len() < limits::SCRUB_FINDINGS_MAX {
            let Some(file) = files.last().cloned() else {
                break;
            };
            let (bytes, bad) = self.store.verify_index(file).await?;
            files.pop();
            read += bytes;
            findings.extend(bad.as_ref().map(weft_meta::index_finding));
        }
        Ok(findings)
    }

    pub(in crate::io) async fn check_store(
        &self,
        request: CheckStoreRequest,
    ) -> Result<CheckStoreReply, Failure> {
        let mut check = self.checks.lock().await;
        if !check.as_ref().is_some_and(|check| check.is(request.pass)) {
            if request.part != 0 {
                return Err(begin_again());
            }
            let index = self.store.index_files().await;
            let index = index.map_err(|e| failure::of_store(&e))?;
            let store = self.store.check_begin().await;
            let store = store.map_err(|e| failure::of_store(&e))?;
            *check = Some(StoreCheck::new(request.pass, index, store));
        }
        let Some(now) = check.as_mut() else {
            return Err(Failure::new(Code::Internal, "no pass was begun".to_owned()));
        };
        if now.steps != request.part {
            return Err(begin_again());
        }
        let total = self.store.usage().used;
        if !now.index.is_empty() {
            let findings = self.check_index(&mut now.index).await;
            now.steps += 1;
            return Ok(CheckStoreReply {
                total,
                findings: findings.map_err(|e| failure::of_store(&e))?,
                ..CheckStoreReply::default()
            });
        }
        let options = CheckOptions {
            data: request.data,
            repair: request.repair,
        };
        let step = self.store.check(&mut now.store, options).await;
        let step = step.map_err(|e| failure::of_store(&e))?;
        now.steps += 1;
        if step.done {
            now.store = CheckPass::default();
        }
        let more = step
            .findings
            .len()
            .saturating_sub(limits::SCRUB_FINDINGS_MAX) as u64;
        let findings = step.findings.into_iter().take(limits::SCRUB_FINDINGS_MAX);
        let findings = findings.map(|(finding, done)| finding_on_the_wire(finding, done));
        let missing = if step.done {
            self.store.missing_chunks(limits::SCRUB_FINDINGS_MAX).await
        } else {
            Ok(Vec::new())
        };
        let missing = missing.map_err(|e| failure::of_store(&e))?;
        let marks = step.marks.into_iter().map(|text| Finding {
            fault: Fault::IndexRecord as i32,
            text,
            repaired: true,
            done: "treated as a record without effect".to_owned(),
            ..Finding::default()
        });
        Ok(CheckStoreReply {
            done: step.done,
            chunks: step.chunks,
            bytes: step.bytes,
            total,
            findings: marks
                .chain(findings)
                .chain(missing.iter().map(missing_on_the_wire))
                .collect(),
            more,
        })
    }
}

fn begin_again() -> Failure {
    let what = "the server was restarted or another check was begun; begin again";
    Failure::new(Code::Stale, what)
}
