//! Scratch files of a sort, beside its target. They are removed in any case.

use anyhow::{Result, anyhow};
use weft_client::{Access, Changes, File, NewLayout, Volume};
use weft_proto::Code;

use super::entry_path::EntryPath;

/// Separates the name of the target from the unique suffix.
const MARK: &[u8] = b".sort-";

/// The scratch files of one sort.
pub(crate) struct Scratch {
    volume: Volume,
    target: EntryPath,
    number: u32,
    made: Vec<EntryPath>,
}

impl Scratch {
    /// No scratch files yet; they will be beside `target`.
    pub(crate) fn beside(volume: &Volume, target: EntryPath) -> Result<Scratch> {
        let mut number = [0; 4];
        getrandom::fill(&mut number).map_err(|e| anyhow!("cannot get random bytes: {e}"))?;
        Ok(Scratch {
            volume: volume.clone(),
            target,
            number: u32::from_le_bytes(number),
            made: Vec::new(),
        })
    }

    /// Creates a file that only its owner can use.
    pub(crate) async fn create(&mut self, what: &str, layout: &NewLayout) -> Result<File> {
        let ending = format!("{:08x}.{what}", self.number);
        let place = self.target.beside(name(&self.target.name, &ending));
        // Recorded first: a file whose creation was interrupted may exist anyway.
        self.made.push(place.clone());
        let access = Access::read_write().create_new(0o600).layout(layout);
        Ok(self.volume.attach(place.path(), access).await?)
    }

    /// The path of the file created as `what`.
    pub(crate) fn made(&self, what: &str) -> Result<&EntryPath> {
        let ending = format!(".{what}");
        let mut made = self.made.iter();
        made.find(|place| place.name.ends_with(ending.as_bytes()))
            .ok_or_else(|| anyhow!("internal error: no scratch file {what}"))
    }

    /// Atomically replaces the target by the file created as `what`, with these attributes.
    pub(crate) async fn publish(&mut self, what: &str, changes: &Changes) -> Result<()> {
        let path = self.made(what)?.path();
        if changes.uid.is_some() || changes.gid.is_some() {
            // The owner first, as changing it clears bits of the mode.
            let owner = Changes {
                mode: None,
                ..changes.clone()
            };
            self.volume.set_attributes(&path, &owner).await?;
        }
        let mode = Changes {
            mode: changes.mode,
            ..Changes::default()
        };
        self.volume.set_attributes(&path, &mode).await?;
        self.volume.rename(&path, self.target.path()).await?;
        self.made.retain(|place| place.path() != path);
        Ok(())
    }

    /// Removes the files that were not published.
    pub(crate) async fn discard(&mut self) -> Result<()> {
        for place in std::mem::take(&mut self.made) {
            match self.volume.unlink(place.path()).await {
                Err(e) if e.code() != Code::NotFound => {
                    let path = place.show();
                    return Err(anyhow!(
                        "{e}; {path} is not needed any more: remove it with `weft rm {path}`"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Scratch files of other sorts of the same target: one that is running, or that was killed.
    ///
    /// Cost: one request for each thousand names up to these, which come early as they start with a
    /// dot.
    pub(crate) async fn stale(&self) -> Result<Vec<EntryPath>> {
        let start = name(&self.target.name, "");
        let mut listing = self.volume.list(&self.target.directory);
        let mut found = Vec::new();
        loop {
            let page = listing.page().await?;
            let done = page
                .last()
                .is_none_or(|e| e.name[..] > start[..] && !e.name.starts_with(&start));
            let ours = page.into_iter().filter(|e| e.name.starts_with(&start));
            found.extend(ours.map(|e| self.target.beside(e.name.to_vec())));
            if done {
                return Ok(found);
            }
        }
    }
}

/// `.TARGET.sort-ENDING`; a long TARGET is truncated, as a name has 255 bytes at most.
fn name(target: &[u8], ending: &str) -> Vec<u8> {
    let kept = target.len().min(200);
    [b".", &target[..kept], MARK, ending.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_names_are_hidden_and_within_the_length_limit() {
        assert_eq!(
            name(b"grid", "00c0ffee.cells"),
            b".grid.sort-00c0ffee.cells"
        );
        assert!(name(&[b'x'; 255], "00c0ffee.result").len() <= 255);
    }
}
