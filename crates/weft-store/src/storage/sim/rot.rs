//! Bit rot of a simulated disk: stored bytes change, and neither a crash nor a loss of power
//! restores them.

use super::{Change, Content, SimStorage};
use crate::pool::BLOCK;

impl SimStorage {
    /// Changes a file behind the store's back: bit rot. False when there is no such file.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(mut bytes) = self.bytes(name) else {
            return false;
        };
        change(&mut bytes);
        let mut disk = self.0.lock();
        let Ok(file) = disk.file(&self.full_name(name)) else {
            return false;
        };
        let mut content = Content::default();
        content.write(0, &bytes);
        file.now = content.clone();
        file.durable = content;
        file.unsynced.clear();
        true
    }

    /// The numbers of a file's 4 KiB blocks that are not all zeros; none if there is no such file.
    pub fn blocks(&self, name: &str) -> Vec<u64> {
        let disk = self.0.lock();
        let Some(file) = disk.files.get(&self.full_name(name)) else {
            return Vec::new();
        };
        let full = |bytes: &[u8; BLOCK]| bytes.iter().any(|b| *b != 0);
        let blocks = file.now.blocks.iter().filter(|(_, bytes)| full(bytes));
        blocks.map(|(number, _)| *number).collect()
    }

    /// Flips a bit of a file behind the store's back, also in writes that are not synced yet. False
    /// when the file does not have the byte.
    pub fn flip(&self, name: &str, byte: u64, bit: u8) -> bool {
        let mut disk = self.0.lock();
        let Ok(file) = disk.file(&self.full_name(name)) else {
            return false;
        };
        let mask = 1 << (bit % 8);
        let found = file.now.flip(byte, mask);
        file.durable.flip(byte, mask);
        for change in &mut file.unsynced {
            if let Change::Write(at, bytes) = change
                && let Some(inside) = byte.checked_sub(*at)
                && let Some(value) = bytes.get_mut(inside as usize)
            {
                *value ^= mask;
            }
        }
        found
    }
}

impl Content {
    fn flip(&mut self, byte: u64, mask: u8) -> bool {
        let block = self.blocks.get_mut(&(byte / BLOCK as u64));
        let Some(bytes) = block.filter(|_| byte < self.length) else {
            return false;
        };
        bytes[byte as usize % BLOCK] ^= mask;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::FileKind;
    use crate::storage::Storage;

    #[test]
    fn a_flipped_bit_survives_power_loss() {
        let disk = SimStorage::new(1);
        let file = disk.open("data", FileKind::Log).unwrap();
        disk.sync_folder().unwrap();
        file.write_buffered(BLOCK as u64 + 5, b"a").unwrap();
        assert_eq!(disk.blocks("data"), [1]);
        assert!(disk.flip("data", BLOCK as u64 + 5, 1));
        assert_eq!(file.read_buffered(BLOCK as u64 + 5, 1).unwrap(), b"c");
        assert!(!disk.flip("data", BLOCK as u64 + 6, 1), "beyond the end");
        assert!(!disk.flip("data", 5, 1), "a hole");
        disk.crash(true, 2);
        // The write was lost, or kept with the flipped bit.
        assert_ne!(disk.bytes("data").unwrap().last(), Some(&b'a'));
    }
}
