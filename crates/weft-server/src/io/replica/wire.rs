//! Changes of a store as messages, and back.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, CellOffset};
use weft_proto::replica::{ForkId, ForkLength, ForkRange, ForkWrite, WritePieces};
use weft_proto::{Failure, replica};
use weft_store::{ForkKey, ForkName, Run, Scattered};

use crate::failure;
use crate::limits::REPLICA_SLICES_MAX;

pub(super) fn fork_id(key: &ForkKey) -> ForkId {
    ForkId {
        file: key.file.0,
        cell: key.cell.0,
        fork: key.fork.as_str().to_owned(),
    }
}

pub(super) fn fork_key(id: &ForkId) -> Result<ForkKey, Failure> {
    let fork = ForkName::new(&id.fork).map_err(|e| failure::invalid(e.to_string()))?;
    Ok(ForkKey {
        file: weft_layout::FileId(id.file),
        cell: CellIndex(id.cell),
        fork,
    })
}

pub(super) fn length(key: &ForkKey, length: u64, chunk: u32) -> ForkLength {
    ForkLength {
        fork: fork_id(key),
        length,
        chunk,
    }
}

pub(super) fn range(key: &ForkKey, range: &Range<u64>) -> ForkRange {
    ForkRange {
        fork: fork_id(key),
        start: range.start,
        end: range.end,
    }
}

/// A whole part of a fork, or its last bytes, as one write.
pub(super) fn whole_part(key: &ForkKey, chunk: u32, start: u64, data: Bytes) -> Scattered {
    Scattered {
        key: key.clone(),
        chunk,
        runs: vec![Run {
            offset: CellOffset(start),
            at: 0,
            length: data.len() as u64,
            count: 1,
            stride: 1,
        }],
        data,
    }
}

/// Writes as a message, and their bytes as its payload.
pub(super) fn write_pieces(writes: &[Scattered]) -> (WritePieces, Vec<Bytes>) {
    let mut payload: Vec<Bytes> = Vec::new();
    let forks = writes.iter().map(|write| {
        let mut runs = Vec::with_capacity(4 * write.runs.len());
        for run in &write.runs {
            runs.extend([run.offset.0, run.length, run.count, run.stride]);
            let bytes = (run.length * run.count) as usize;
            payload.push(write.data.slice(run.at..run.at + bytes));
        }
        ForkWrite {
            fork: fork_id(&write.key),
            chunk: write.chunk,
            runs,
        }
    });
    let pieces = WritePieces {
        forks: forks.collect(),
    };
    if payload.len() > REPLICA_SLICES_MAX {
        payload = vec![joined(&payload)];
    }
    (pieces, payload)
}

/// Slices as one.
pub(super) fn joined(slices: &[Bytes]) -> Bytes {
    if let [one] = slices {
        return one.clone();
    }
    let mut all = BytesMut::with_capacity(slices.iter().map(Bytes::len).sum());
    for slice in slices {
        all.extend_from_slice(slice);
    }
    all.freeze()
}

/// The writes of a message whose payload is `data`.
pub(super) fn writes(pieces: &WritePieces, data: &Bytes) -> Result<Vec<Scattered>, Failure> {
    let mut at = 0_usize;
    let mut writes = Vec::with_capacity(pieces.forks.len());
    for fork in &pieces.forks {
        let (runs, rest) = fork.runs.as_chunks::<4>();
        let mut made = Vec::with_capacity(runs.len());
        for [offset, length, count, stride] in runs {
            let bytes = length
                .checked_mul(*count)
                .and_then(|n| usize::try_from(n).ok());
            let end = bytes.and_then(|bytes| at.checked_add(bytes));
            let end = end.filter(|end| *end <= data.len() && *length > 0 && *count > 0);
            let end = end.ok_or_else(|| failure::invalid("pieces and payload do not agree"))?;
            made.push(Run {
                offset: CellOffset(*offset),
                at,
                length: *length,
                count: *count,
                stride: *stride,
            });
            at = end;
        }
        if !rest.is_empty() {
            return Err(failure::invalid("a run has four numbers"));
        }
        writes.push(Scattered {
            key: fork_key(&fork.fork)?,
            chunk: fork.chunk,
            runs: made,
            data: data.clone(),
        });
    }
    if at != data.len() {
        return Err(failure::invalid("pieces and payload do not agree"));
    }
    Ok(writes)
}

/// The file that an operation names, of operations that name one.
pub(super) fn lengths(set: &replica::SetLengths) -> Result<Vec<(ForkKey, u64)>, Failure> {
    let one = |l: &ForkLength| Ok((fork_key(&l.fork)?, l.length));
    let all: Result<Vec<_>, Failure> = set.lengths.iter().map(one).collect();
    let all = all?;
    if all.iter().any(|(key, _)| key.file.0 != set.file) {
        return Err(failure::invalid("the forks are of another file"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use weft_layout::FileId;

    use super::*;

    #[test]
    fn writes_come_back_from_their_message() {
        let key = |cell| ForkKey {
            file: FileId(9),
            cell: CellIndex(cell),
            fork: ForkName::data(),
        };
        let data = Bytes::from_static(b"..abcdefXYZ");
        let run = |offset, at, length, count, stride| Run {
            offset: CellOffset(offset),
            at,
            length,
            count,
            stride,
        };
        let sent = vec![
            Scattered {
                key: key(1),
                chunk: 4096,
                runs: vec![run(100, 2, 2, 3, 50)],
                data: data.clone(),
            },
            Scattered {
                key: key(2),
                chunk: 4096,
                runs: vec![run(7, 8, 3, 1, 1)],
                data,
            },
        ];
        let (pieces, payload) = write_pieces(&sent);
        let data = joined(&payload);
        assert_eq!(&data[..], b"abcdefXYZ");
        let got = writes(&pieces, &data).unwrap();
        assert_eq!(got[0].runs, [run(100, 0, 2, 3, 50)]);
        assert_eq!(got[1].runs, [run(7, 6, 3, 1, 1)]);
        assert_eq!((got[1].key.clone(), got[1].chunk), (key(2), 4096));
        for wrong in [data.slice(1..), Bytes::from_static(b"abcdefXYZ!")] {
            assert!(writes(&pieces, &wrong).is_err());
        }
        let mut wrong = pieces;
        wrong.forks[0].runs = vec![0, u64::MAX, u64::MAX, 1];
        assert!(writes(&wrong, &data).is_err());
    }
}
