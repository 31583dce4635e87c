//! The messages between the leader and the workers of a sort.

use std::sync::Arc;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weft_client::Volume;

use super::mesh::Mesh;
use super::opened::{HandedFile, OpenedFile, OpenedView};
use crate::apps::record::{RecordDigest, RecordOrder};

/// Everything a worker needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SortJob {
    pub(crate) worker: u32,
    pub(crate) mesh: Mesh,
    pub(crate) order: RecordOrder,
    /// The file to sort.
    pub(crate) source: HandedFile,
    pub(crate) source_order: ByteOrder,
    /// The file of the mesh; `None` if it has one cell, as then nothing is kept between phases.
    pub(crate) scratch: Option<HandedFile>,
    /// The result.
    pub(crate) output: HandedFile,
    pub(crate) output_order: ByteOrder,
}

/// How the bytes of a whole file form one sequence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ByteOrder {
    /// In canonical order.
    Canonical,
    /// Cell after cell, with these lengths.
    Cells(Vec<u64>),
}

/// The report of a worker about a phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SortReport {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// The digest of the records read: of the file when loading, of the result when verifying.
    pub(crate) digest: RecordDigest,
    /// The first record of the result that is out of order.
    pub(crate) disorder: Option<u64>,
}

/// A run of a file's sequence that lies in one view.
pub(crate) struct Run {
    pub(crate) view: Arc<OpenedView>,
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// A file as one sequence of bytes.
pub(crate) struct Sequence {
    pub(crate) file: OpenedFile,
    order: ByteOrder,
}

impl Sequence {
    /// Opens a file that the leader handed over.
    pub(crate) fn open(
        volume: Option<&Volume>,
        handed: &HandedFile,
        order: ByteOrder,
    ) -> Result<Sequence> {
        Ok(Sequence {
            file: OpenedFile::new(volume, handed)?,
            order,
        })
    }

    /// The runs that hold bytes `from..to` of the sequence, in order.
    pub(crate) fn runs(&self, from: u64, to: u64) -> Result<Vec<Run>> {
        let run = |view, at, length| Run {
            view: Arc::new(view),
            at,
            length,
        };
        if from >= to {
            return Ok(Vec::new());
        }
        match &self.order {
            ByteOrder::Canonical => Ok(vec![run(self.file.whole()?, from, to - from)]),
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
                    let view = self.file.cell(begins, cell)?;
                    Ok(run(view, first - begins, last - first))
                })
                .collect(),
        }
    }
}
