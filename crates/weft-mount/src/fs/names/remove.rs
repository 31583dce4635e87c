//! Removes and renames names.

use rustix::io::Errno;
use weft_client::Removed;

use crate::fs::metadata::{Answer, AskedAt};
use crate::fs::view_ids::refuse_in_views;
use crate::fs::{Caller, FileSystem, FsError};

impl FileSystem {
    /// This mount has removed a name. The service's answer has the directory's new attributes: the
    /// kernel asks for them before it removes the next name.
    fn removed(&self, asked: AskedAt, (parent, name): (u64, &[u8]), removed: &Removed) {
        self.metadata.nodes().unnamed(removed.file);
        self.metadata.touched(removed.file);
        if let Some(directory) = &removed.directory {
            self.metadata
                .touched_to(asked, &Answer::exact(directory), false);
        } else {
            self.metadata.touched(parent);
        }
        self.metadata.name_removed(asked, parent, name);
    }

    /// Removes a name of a node that is not a directory.
    pub async fn unlink(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<(), FsError> {
        refuse_in_views(&[parent], &[name])?;
        if self.remove_delegated(caller, parent, name).await {
            return Ok(());
        }
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let asked = self.metadata.now();
        let removed = self.call(|| volume.unlink(&place)).await;
        // A call that failed may have taken effect.
        let removed = removed.inspect_err(|_| self.metadata.touched(parent))?;
        self.removed(asked, (parent, name), &removed);
        self.forget_kept(removed.file).await;
        Ok(())
    }

    /// Removes an empty directory.
    pub async fn remove_directory(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
    ) -> Result<(), FsError> {
        refuse_in_views(&[parent], &[name])?;
        if self.remove_directory_delegated(caller, parent, name).await {
            return Ok(());
        }
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let asked = self.metadata.now();
        let removed = self.call(|| volume.remove_directory(&place)).await;
        let removed = removed.inspect_err(|_| self.metadata.touched(parent))?;
        self.removed(asked, (parent, name), &removed);
        Ok(())
    }

    /// Renames; `flags` as of renameat2.
    pub async fn rename(
        &self,
        caller: Caller,
        (from, from_name): (u64, &[u8]),
        (to, to_name): (u64, &[u8]),
        flags: u32,
    ) -> Result<(), FsError> {
        refuse_in_views(&[from, to], &[from_name, to_name])?;
        let volume = self.on(caller);
        let (old, new) = (
            self.metadata.under(from, from_name),
            self.metadata.under(to, to_name),
        );
        self.metadata.name_may_exist(to, to_name);
        if flags & libc::RENAME_EXCHANGE != 0 {
            self.metadata.name_may_exist(from, from_name);
        }
        let asked = self.metadata.now();
        let renamed = match flags {
            0 => self.call(|| volume.rename(&old, &new)).await,
            libc::RENAME_NOREPLACE => self.call(|| volume.rename_new(&old, &new)).await,
            libc::RENAME_EXCHANGE => self.call(|| volume.exchange(&old, &new)).await,
            _ => Err(FsError::refused(
                "the kind of rename is unknown",
                Errno::INVAL,
            )),
        };
        if flags & libc::RENAME_EXCHANGE == 0
            && renamed.as_ref().is_ok_and(|renamed| renamed.file != 0)
        {
            self.metadata.name_removed(asked, from, from_name);
        }
        // Answers from before do not count, also if the call failed: it may have taken effect.
        self.metadata.name_changed(from, from_name);
        self.metadata.name_changed(to, to_name);
        let renamed = renamed.inspect_err(|_| {
            self.metadata.touched(from);
            self.metadata.touched(to);
        })?;
        self.metadata.nodes().called(renamed.file, (to, to_name));
        if flags & libc::RENAME_EXCHANGE != 0 {
            self.metadata
                .nodes()
                .called(renamed.other, (from, from_name));
        }
        self.metadata.touched(to);
        self.metadata.touched(renamed.file);
        self.metadata.nodes().unnamed(renamed.other);
        self.metadata.touched(renamed.other);
        self.forget_kept(renamed.other).await;
        self.metadata.touched(from);
        if flags & libc::RENAME_EXCHANGE == 0 {
            // It is gone, if it was a directory.
            self.metadata.names_uncertain(renamed.other);
        }
        Ok(())
    }
}
