//! Holes where old data may lie: between the runs of a piece, and in a local file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// The ranges between the runs.
pub(in crate::transfer) fn gaps(runs: &[Range<usize>], length: usize) -> Vec<Range<usize>> {
    let ends = std::iter::once(0).chain(runs.iter().map(|run| run.end));
    let starts = runs.iter().map(|run| run.start).chain([length]);
    let gaps = ends.zip(starts).map(|(from, to)| from..to);
    gaps.filter(|gap| !gap.is_empty()).collect()
}

/// Punches a hole, or writes zeros if the file system has no holes.
pub(in crate::transfer) fn punch(file: &File, at: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, at, length) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => zeros(file, at, length),
        Err(e) => Err(e.into()),
    }
}

fn zeros(file: &File, at: u64, length: u64) -> io::Result<()> {
    let zeros = [0; 16 << 10];
    let mut done = 0;
    while done < length {
        let now = (length - done).min(zeros.len() as u64);
        file.write_all_at(&zeros[..now as usize], at + done)?;
        done += now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "gaps are ranges")]
    fn gaps_are_the_ranges_between_runs() {
        assert_eq!(gaps(&[], 10), [0..10]);
        assert!(gaps(&[0..10], 10).is_empty());
        assert_eq!(gaps(&[2..3, 5..7], 10), [0..2, 3..5, 7..10]);
        assert_eq!(gaps(&[0..4, 6..10], 10), [4..6]);
    }

    #[test]
    fn a_punched_range_reads_as_zeros_and_the_rest_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 100_000]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        punch(&file, 5000, 90_000).unwrap();
        zeros(&file, 0, 10).unwrap();
        let now = std::fs::read(&path).unwrap();
        let expected = |i: usize| {
            if i < 10 || (5000..95_000).contains(&i) {
                0
            } else {
                7
            }
        };
        assert!(now.len() == 100_000 && now.iter().enumerate().all(|(i, b)| *b == expected(i)));
    }
}
