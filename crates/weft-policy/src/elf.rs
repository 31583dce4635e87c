//! Whether a file is a whole ELF library: the loader maps what the file's head says, and a process
//! dies of touching a map beyond the file's end, as of a library that is still being copied.

const MAGIC: &[u8] = b"\x7fELF";
const LOAD: u32 = 1;

/// The bytes that a file must have according to its head; `None`: it has no such head.
///
/// Only the byte order and word size of this machine are taken: the loader refuses others.
pub(crate) fn needed(file: &[u8]) -> Option<u64> {
    let half = |at: usize| Some(u16::from_ne_bytes(*file.get(at..)?.first_chunk()?));
    let word = |at: usize| Some(u32::from_ne_bytes(*file.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_ne_bytes(*file.get(at..)?.first_chunk()?));
    let is_64_bit = file.get(4) == Some(&2);
    if !file.starts_with(MAGIC) || !is_64_bit {
        return None;
    }
    let (programs, sections) = (long(0x20)?, long(0x28)?);
    let (program_bytes, program_count) = (half(0x36)?, half(0x38)?);
    let (section_bytes, section_count) = (half(0x3a)?, half(0x3c)?);
    let table =
        |at: u64, bytes: u16, count: u16| at.checked_add(u64::from(bytes) * u64::from(count));
    let mut end = table(programs, program_bytes, program_count)?;
    end = end.max(table(sections, section_bytes, section_count)?);
    for n in 0..u64::from(program_count) {
        let at = usize::try_from(programs + n * u64::from(program_bytes)).ok()?;
        if word(at)? == LOAD {
            let (offset, bytes) = (long(at.checked_add(8)?)?, long(at.checked_add(0x20)?)?);
            end = end.max(offset.checked_add(bytes)?);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::needed;

    #[test]
    fn a_library_is_as_long_as_its_head_says_and_a_part_of_it_is_not() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let whole = needed(&own).unwrap();
        assert!(whole <= own.len() as u64 && whole > own.len() as u64 / 2);
        assert_eq!(needed(&own[..own.len() / 2]), Some(whole));
        assert_eq!(needed(&own[..40]), None);
        assert_eq!(needed(b"no library"), None);
        let mut wild = own[..4096].to_vec();
        wild[0x20..0x28].fill(0xff);
        assert_eq!(needed(&wild), None);
    }
}
