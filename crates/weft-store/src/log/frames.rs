//! Reading a log back: which frames are valid.

use bytes::Bytes;

use crate::error::StoreError;
use crate::record::{
    FRAME_BYTES, FRAME_VERSION, FrameRecord, Header, ItemRecord, checksum, decode_body,
};

/// A complete frame that was read back.
pub(crate) struct Frame {
    /// Where it begins: index of its segment, offset.
    pub(crate) at: (usize, u64),
    pub(crate) sequence: u64,
    pub(crate) modified: i64,
    pub(crate) items: Vec<ItemRecord>,
}

/// The contents of a log.
#[derive(Default)]
pub(crate) struct ParsedLog {
    pub(crate) frames: Vec<Frame>,
    /// Where it ends: recovery truncates the log here. `None`: at the end of the last segment.
    pub(crate) truncate_at: Option<(usize, u64)>,
    /// Everything up to here is known to be on stable storage.
    pub(crate) synced: u64,
    /// Set if it must not end there.
    pub(crate) damage: Option<LogDamage>,
}

/// Damage of a log: it ends where it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogDamage {
    /// Where: index of the segment, offset.
    pub(crate) at: (usize, u64),
    /// What is there.
    pub(crate) what: &'static str,
    /// The first frame that is missing.
    pub(crate) first: u64,
}

impl ParsedLog {
    /// The last valid frame; everything up to `applied` is in the index.
    pub(crate) fn reached(&self, applied: u64) -> u64 {
        self.frames.last().map_or(0, |f| f.sequence).max(applied)
    }

    /// The log ends here; `what`: the damage, if it must not.
    fn end(mut self, at: (usize, u64), what: Option<&'static str>, applied: u64) -> Self {
        self.truncate_at = Some(at);
        let first = self.reached(applied) + 1;
        self.damage = what.map(|what| LogDamage { at, what, first });
        self
    }
}

/// Reads segments in order up to the first frame that is not valid. Zeros up to a segment's end
/// were written ahead.
///
/// A frame that was never synced may be torn: anywhere after a loss of power, only at the end after
/// a kill. All other bytes that are not a frame are damage, and so is an end before frame `must`:
/// the store refuses to guess.
pub(crate) fn parse(
    segments: &[Bytes],
    applied: u64,
    power_lost: bool,
    must: u64,
) -> Result<ParsedLog, StoreError> {
    let parsed = stand(segments, applied, power_lost)?;
    if parsed.damage.is_some() || parsed.reached(applied) >= must {
        return Ok(parsed);
    }
    let behind_last = || {
        let last = segments.iter().rposition(|s| used_length(s) > 0)?;
        Some((last, used_length(&segments[last]) as u64))
    };
    let at = parsed.truncate_at.or_else(behind_last).unwrap_or((0, 0));
    Ok(parsed.end(at, Some("the log ends too early"), applied))
}

/// The valid frames, whichever frames must exist.
fn stand(segments: &[Bytes], applied: u64, power_lost: bool) -> Result<ParsedLog, StoreError> {
    let mut parsed = ParsedLog::default();
    let mut next = None;
    for (index, segment) in segments.iter().enumerate() {
        let (mut at, end) = (0, used_length(segment));
        while at < end {
            let here = (index, at as u64);
            match frame_at(segment, at, end, next, applied) {
                Read::Frame(frame, body) => {
                    let Some((modified, items)) = decode_body(&body) else {
                        return Ok(parsed.end(
                            here,
                            Some("a frame's items are not known"),
                            applied,
                        ));
                    };
                    for item in &items {
                        if let ItemRecord::Synced { through } = item {
                            parsed.synced = parsed.synced.max(*through);
                        }
                    }
                    parsed.frames.push(Frame {
                        at: here,
                        sequence: frame.sequence,
                        modified,
                        items,
                    });
                    next = Some(frame.sequence + 1);
                    at += frame.stride() as usize;
                }
                Read::Version(found) => {
                    return Err(StoreError::Version {
                        what: "a frame of the log",
                        found,
                        known: FRAME_VERSION,
                    });
                }
                other => {
                    let legal = if power_lost {
                        // Frames that the index has were synced, so they are not torn. But they may
                        // be missing: some segments that are not needed may have been removed.
                        let in_index = match next {
                            Some(next) if at > 0 => next <= applied,
                            _ => has_applied(segment, applied),
                        };
                        let expected = next.unwrap_or(0).max(applied + 1);
                        !in_index && !synced_beyond(&segments[index..], at, expected)
                    } else {
                        let last = segments[index + 1..].iter().all(|s| used_length(s) == 0);
                        matches!(other, Read::Torn) && last
                    };
                    let what = match other {
                        _ if legal => None,
                        Read::Missing => Some("frames before this one are missing"),
                        _ => Some("this is not a frame"),
                    };
                    return Ok(parsed.end(here, what, applied));
                }
            }
        }
    }
    Ok(parsed)
}

enum Read {
    Frame(FrameRecord, Bytes),
    /// The segment ends inside the frame.
    Torn,
    Bad,
    /// It is not the next frame.
    Missing,
    Version(u8),
}

/// Bytes of a segment without the zeros at its end.
pub(crate) fn used_length(segment: &[u8]) -> usize {
    segment
        .iter()
        .rposition(|b| *b != 0)
        .map_or(0, |last| last + 1)
}

/// The frame at `at` of a segment that is zero from `end` on.
fn frame_at(segment: &Bytes, at: usize, end: usize, next: Option<u64>, applied: u64) -> Read {
    let frame = match FrameRecord::decode(&segment[at..]) {
        Header::Short => return Read::Torn,
        Header::Bad if end < at + FRAME_BYTES => return Read::Torn,
        Header::Bad => return Read::Bad,
        Header::Version(found) => return Read::Version(found),
        Header::Good(frame) => frame,
    };
    // Applied segments may or may not exist: their removal is not synced.
    let may_jump = next.is_none_or(|n| n <= applied + 1) && frame.sequence <= applied + 1;
    if next != Some(frame.sequence) && !may_jump {
        return Read::Missing;
    }
    let start = at + FRAME_BYTES;
    // A frame without a mark at its end may end with zeros.
    let held = if frame.ends { end } else { segment.len() };
    if at as u64 + frame.stride() > held as u64 {
        return Read::Torn;
    }
    let body = segment.slice(start..start + frame.body as usize);
    let rest = &segment[start + frame.body as usize..at + frame.stride() as usize];
    if checksum(&body) != frame.crc || !frame.is_end(rest) {
        return Read::Bad;
    }
    Read::Frame(frame, body)
}

/// Whether the index has a frame of this segment, and so the segment's first frame.
fn has_applied(segment: &Bytes, applied: u64) -> bool {
    whole_frames(segment, 0).any(|(frame, _)| frame.sequence <= applied)
}

/// Whether the bytes of a segment from `at` on may be the beginning of a frame that was never
/// complete.
pub(crate) fn is_torn(segment: &Bytes, at: usize) -> bool {
    let end = used_length(segment);
    match FrameRecord::decode(segment.get(at..).unwrap_or_default()) {
        Header::Short => true,
        Header::Bad => end < at + FRAME_BYTES,
        Header::Good(frame) => at as u64 + frame.stride() > end as u64,
        Header::Version(_) => false,
    }
}

/// The complete frames of a segment from `from` on, wherever they begin, with their bodies.
fn whole_frames(segment: &Bytes, from: usize) -> impl Iterator<Item = (FrameRecord, Bytes)> + '_ {
    (from..segment.len()).step_by(8).filter_map(move |offset| {
        let Header::Good(frame) = FrameRecord::decode(&segment[offset..]) else {
            return None;
        };
        let start = offset + FRAME_BYTES;
        let body = segment.get(start..start + frame.body as usize)?;
        (checksum(body) == frame.crc).then(|| (frame, segment.slice_ref(body)))
    })
}

/// Whether a frame after `at` says that frame `expected` was synced.
fn synced_beyond(segments: &[Bytes], at: usize, expected: u64) -> bool {
    segments.iter().enumerate().any(|(i, segment)| {
        let from = if i == 0 { at } else { 0 };
        whole_frames(segment, from).any(|(frame, body)| {
            let says =
                |i: &ItemRecord| matches!(i, ItemRecord::Synced { through } if *through >= expected);
            frame.synced && decode_body(&body).is_some_and(|(_, items)| items.iter().any(says))
        })
    })
}

/// A frame's number, where it ends in its segment, and its items.
pub(crate) type WholeFrame = (u64, usize, Vec<ItemRecord>);

/// The complete frames of a segment from `at` on, whatever bytes are between them.
pub(crate) fn find_frames(segment: &Bytes, at: usize) -> Vec<WholeFrame> {
    let (mut found, mut at) = (Vec::new(), at);
    while at + FRAME_BYTES <= segment.len() {
        let whole = match FrameRecord::decode(&segment[at..]) {
            Header::Good(frame) => {
                let start = at + FRAME_BYTES;
                let fits = start + frame.body as usize <= segment.len();
                let body = fits.then(|| segment.slice(start..start + frame.body as usize));
                let body = body.filter(|body| checksum(body) == frame.crc);
                body.and_then(|body| Some((frame, decode_body(&body)?.1)))
            }
            _ => None,
        };
        at += match whole {
            Some((frame, items)) => {
                let stride = frame.stride() as usize;
                found.push((frame.sequence, at + stride, items));
                stride
            }
            None => 8,
        };
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ForkId;
    use crate::record::new_body;

    /// Frames 1 to `count` with zeros after them, and the offset of the last frame.
    fn segment(count: u64) -> (Vec<u8>, usize) {
        let (mut bytes, mut last) = (Vec::new(), 0);
        for n in 1..=count {
            let mut body = new_body(7);
            ItemRecord::encode_data(&mut body, ForkId(1), n, &[0; 40]);
            last = bytes.len();
            FrameRecord::append(&mut bytes, n, false, &body);
        }
        bytes.resize(bytes.len() + 4096, 0);
        (bytes, last)
    }

    fn frames(
        segments: &[Vec<u8>],
        power_lost: bool,
    ) -> Result<(usize, Option<(usize, u64)>), StoreError> {
        let segments: Vec<_> = segments.iter().cloned().map(Bytes::from).collect();
        let parsed = parse(&segments, 0, power_lost, 0)?;
        match parsed.damage {
            None => Ok((parsed.frames.len(), parsed.truncate_at)),
            Some(damage) => Err(StoreError::LogDamaged {
                file: String::new(),
                at: damage.at.1,
                what: damage.what,
                first: damage.first,
            }),
        }
    }

    #[test]
    fn zeros_after_the_last_frame_end_a_segment() {
        let (first, _) = segment(3);
        let mut second = Vec::new();
        FrameRecord::append(&mut second, 4, false, &new_body(7));
        for power_lost in [false, true] {
            let whole = frames(&[first.clone(), second.clone()], power_lost).unwrap();
            assert_eq!(whole, (4, None));
        }
    }

    #[test]
    fn a_log_that_ends_before_its_recorded_end_is_damaged() {
        let (bytes, last) = segment(3);
        let cut = Bytes::copy_from_slice(&bytes[..last]);
        for power_lost in [false, true] {
            for (must, damaged) in [(2, false), (3, true)] {
                let parsed = parse(std::slice::from_ref(&cut), 0, power_lost, must).unwrap();
                let damage = parsed.damage.map(|d| (d.at, d.first));
                assert_eq!(damage, damaged.then_some(((0, last as u64), 3)));
            }
            assert!(parse(&[], 4, power_lost, 4).unwrap().damage.is_none());
            assert!(parse(&[], 4, power_lost, 5).unwrap().damage.is_some());
        }
    }

    #[test]
    fn a_partly_written_last_frame_is_torn_and_an_altered_one_is_damaged() {
        let (bytes, last) = segment(3);
        let end = used_length(&bytes);
        for cut in last + 1..end {
            let mut torn = bytes.clone();
            torn[cut..].fill(0);
            let cut_at = (used_length(&torn) > last).then_some((0, last as u64));
            assert_eq!(frames(&[torn.clone()], false).unwrap(), (2, cut_at));
            // A later frame exists, so this one was complete.
            let mut next = Vec::new();
            FrameRecord::append(&mut next, 4, false, &new_body(7));
            assert!(frames(&[torn, next], false).is_err());
        }
        for at in 0..end {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(frames(&[changed], false).is_err(), "byte {at}");
        }
    }

    #[test]
    fn synced_frames_already_in_the_index_may_be_missing() {
        // Two segments were removed. After a power loss the first is back, and the second, with
        // frames 4 and 5, is not.
        let (first, _) = segment(3);
        let mut second = vec![0; 512];
        let mut body = new_body(7);
        ItemRecord::Synced { through: 5 }.encode(&mut body);
        FrameRecord::append(&mut second, 7, true, &body);
        let segments = [Bytes::from(first), Bytes::from(second)];
        for (applied, damaged) in [(5, false), (4, true), (3, true)] {
            let parsed = parse(&segments, applied, true, 0).unwrap();
            assert_eq!(parsed.truncate_at, Some((1, 0)));
            assert_eq!(parsed.damage.is_some(), damaged, "applied {applied}");
            assert_eq!(parsed.reached(applied), applied);
        }
    }

    #[test]
    fn a_damaged_frame_is_reported_even_if_the_index_has_it() {
        // The index holds only synced frames: this one was synced, even if no record says so.
        let (bytes, last) = segment(6);
        let stride = last / 5;
        for (bad, applied, damaged) in [
            (0, 3, true),
            (0, 1, false),
            (2, 3, true),
            (2, 2, false),
            (4, 2, false),
        ] {
            let mut changed = bytes.clone();
            changed[bad * stride + 60] ^= 1;
            let parsed = parse(&[Bytes::from(changed)], applied, true, 0).unwrap();
            let what = format!("frame {} of 6, {applied} in the index", bad + 1);
            assert_eq!(
                parsed.truncate_at,
                Some((0, (bad * stride) as u64)),
                "{what}"
            );
            assert_eq!(parsed.damage.is_some(), damaged, "{what}");
        }
    }
}
