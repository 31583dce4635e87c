//! What the leader and the workers of a sort tell each other.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weft_client::{File, OpenView, Volume};
use weft_layout::{CellIndex, View};

use super::mesh::Mesh;
use crate::apps::record::{RecordOrder, Tally};

/// Everything a worker needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) worker: u32,
    pub(crate) mesh: Mesh,
    pub(crate) order: RecordOrder,
    /// Attachment of the file to sort.
    pub(crate) source: Vec<u8>,
    pub(crate) source_order: ByteOrder,
    /// Attachment of the mesh; none where the mesh has one cell, as then nothing is kept between phases.
    pub(crate) scratch: Option<Vec<u8>>,
    /// Attachment of the result.
    pub(crate) output: Vec<u8>,
    pub(crate) output_order: ByteOrder,
}

/// Where the bytes of a whole file are, as one sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ByteOrder {
    /// In canonical order.
    Canonical,
    /// Cell after cell, of these lengths.
    Cells(Vec<u64>),
}

/// What a worker did in a phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Of the records read from the file, when loading, or from the result, when verifying.
    pub(crate) tally: Tally,
    /// A record of the result that comes before the one it follows.
    pub(crate) disorder: Option<u64>,
}

/// A run of a file's sequence that lies in one view.
pub(crate) struct Run {
    pub(crate) view: Arc<OpenView>,
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// A file as one sequence of bytes.
pub(crate) struct Sequence {
    file: File,
    order: ByteOrder,
}

impl Sequence {
    /// Takes over a file that the leader attached.
    pub(crate) fn adopt(volume: &Volume, handed: &[u8], order: ByteOrder) -> Result<Sequence> {
        Ok(Sequence {
            file: volume.adopt(handed)?,
            order,
        })
    }

    /// The runs that hold bytes `from..to` of the sequence, in order.
    pub(crate) fn runs(&self, from: u64, to: u64) -> Result<Vec<Run>> {
        let run = |view, at, length| -> Result<Run> {
            let view = Arc::new(self.file.view(view)?);
            Ok(Run { view, at, length })
        };
        if from >= to {
            return Ok(Vec::new());
        }
        match &self.order {
            ByteOrder::Canonical => Ok(vec![run(View::canonical(), from, to - from)?]),
            ByteOrder::Cells(lengths) => lengths
                .iter()
                .zip(0..)
                .scan(0, |start, (length, cell)| {
                    let begins = *start;
                    *start += length;
                    Some((begins, *start, cell))
                })
                .filter(|(begins, ends, _)| *begins < to && from < *ends)
                .map(|(begins, ends, cell)| {
                    let (first, last) = (from.max(begins), to.min(ends));
                    run(View::Cell(CellIndex(cell)), first - begins, last - first)
                })
                .collect(),
        }
    }
}
