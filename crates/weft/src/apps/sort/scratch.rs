//! Files that a sort makes beside its target, and that go whatever happens.

use anyhow::{Result, anyhow};
use weft_client::{Access, Changes, File, NewLayout, Volume};
use weft_proto::Code;

use super::target::Place;

/// Stands between the name of the target and what makes the name unique.
const MARK: &[u8] = b".sort-";

/// The scratch files of one sort.
pub(crate) struct Scratch {
    volume: Volume,
    target: Place,
    number: u32,
    made: Vec<Place>,
}

impl Scratch {
    /// Nothing yet, beside `target`.
    pub(crate) fn beside(volume: &Volume, target: Place) -> Result<Scratch> {
        let mut number = [0; 4];
        getrandom::fill(&mut number).map_err(|e| anyhow!("no randomness: {e}"))?;
        Ok(Scratch {
            volume: volume.clone(),
            target,
            number: u32::from_le_bytes(number),
            made: Vec::new(),
        })
    }

    /// Makes a file for the owner alone.
    pub(crate) async fn create(&mut self, what: &str, layout: &NewLayout) -> Result<File> {
        let ending = format!("{:08x}.{what}", self.number);
        let place = self.target.beside(name(&self.target.name, &ending));
        // Noted first: a file whose making was interrupted may be there all the same.
        self.made.push(place.clone());
        let access = Access::read_write().create_new(0o600).layout(layout);
        Ok(self.volume.attach(place.path(), access).await?)
    }

    /// Where the file made as `what` is.
    pub(crate) fn made(&self, what: &str) -> Result<&Place> {
        let ending = format!(".{what}");
        let mut made = self.made.iter();
        made.find(|place| place.name.ends_with(ending.as_bytes()))
            .ok_or_else(|| anyhow!("no file {what} was made"))
    }

    /// Puts the file made as `what` in the target's place, with these attributes, in one step.
    pub(crate) async fn publish(&mut self, what: &str, changes: &Changes) -> Result<()> {
        let path = self.made(what)?.path();
        if changes.uid.is_some() || changes.gid.is_some() {
            // First, as a change of the owner takes bits of the mode away.
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

    /// Removes what was made and not published.
    pub(crate) async fn discard(&mut self) -> Result<()> {
        for place in std::mem::take(&mut self.made) {
            match self.volume.unlink(place.path()).await {
                Err(e) if e.code() != Code::NotFound => {
                    let path = place.show();
                    return Err(anyhow!(
                        "{e}; {path} holds nothing that is needed: remove it with `weft rm {path}`"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Scratch files of other sorts of the same target: of one that runs now, or that was killed.
    ///
    /// Cost: one request for each thousand names up to these, which start with a dot and so come
    /// early.
    pub(crate) async fn stale(&self) -> Result<Vec<Place>> {
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

/// `.TARGET.sort-ENDING`; a long TARGET is cut, as a name has 255 bytes at most.
fn name(target: &[u8], ending: &str) -> Vec<u8> {
    let kept = target.len().min(200);
    [b".", &target[..kept], MARK, ending.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_names_are_hidden_and_fit() {
        assert_eq!(
            name(b"grid", "00c0ffee.cells"),
            b".grid.sort-00c0ffee.cells"
        );
        assert!(name(&[b'x'; 255], "00c0ffee.result").len() <= 255);
    }
}
