//! Makes nodes, directories, links and further names.

use rustix::io::Errno;
use weft_client::{Access, Attributes, FileKind, NewMode};

use crate::fs::metadata::{Answer, AskedAt, kind_of_mode};
use crate::fs::view_ids::refuse_in_views;
use crate::fs::{Caller, Entry, FileSystem, FsError};

impl FileSystem {
    /// Makes a name and its node. The parent may have the name from before the call on.
    async fn make<F>(
        &self,
        (parent, name): (u64, &[u8]),
        make: impl Fn() -> F,
    ) -> Result<(AskedAt, Answer), FsError>
    where
        F: Future<Output = Result<Attributes, weft_client::Error>>,
    {
        self.metadata.name_may_exist(parent, name);
        let asked = self.metadata.now();
        let attributes = self
            .call(make)
            .await
            .inspect_err(|_| self.metadata.touched(parent));
        let answer = Answer::exact(&attributes?);
        self.metadata.entered(asked, parent, &answer.attr);
        Ok((asked, answer))
    }

    /// Makes a regular file, fifo, socket or device node; `mode` has the type bits.
    pub async fn make_node(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
        device: u32,
    ) -> Result<Entry, FsError> {
        refuse_in_views(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let bits = mode & 0o7777;
        let kind = kind_of_mode(mode).ok_or(FsError::refused(
            "the kind of node is unknown",
            Errno::INVAL,
        ))?;
        let outcome = if kind == FileKind::Regular {
            let access = Access::default().create_new(bits).umask(umask).inline();
            let make = || async {
                let file = volume.attach(&place, access.clone()).await?;
                file.close_deferred().await?;
                Ok(file.attributes().clone())
            };
            self.make((parent, name), make).await
        } else {
            let mode = NewMode { bits, umask };
            let make = || volume.make_node(&place, kind, mode, device.into());
            self.make((parent, name), make).await
        };
        let (asked, answer) = outcome?;
        Ok(self.metadata.entry(asked, &answer, (parent, name)))
    }

    /// Makes a directory.
    pub async fn make_directory(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        (mode, umask): (u32, u32),
    ) -> Result<Entry, FsError> {
        refuse_in_views(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let bits = mode & 0o7777;
        let mode = NewMode { bits, umask };
        let asked = self.metadata.now();
        if let Some(attributes) = self
            .make_directory_delegated(&volume, (parent, name), mode)
            .await
        {
            self.metadata.name_may_exist(parent, name);
            let answer = Answer::exact(&attributes);
            self.metadata.entered(asked, parent, &answer.attr);
            let entry = self.metadata.entry(asked, &answer, (parent, name));
            self.metadata.directory_made(asked, answer.attr.id);
            return Ok(entry);
        }
        let lease = self.metadata.is_live();
        self.metadata.name_may_exist(parent, name);
        let asked = self.metadata.now();
        let directory = self
            .call(|| volume.make_directory_leased(&place, mode, lease))
            .await
            .inspect_err(|_| self.metadata.touched(parent))?;
        let answer = Answer::exact(&directory.attributes);
        self.metadata.entered(asked, parent, &answer.attr);
        let entry = self.metadata.entry(asked, &answer, (parent, name));
        let id = answer.attr.id;
        if directory.leased {
            self.metadata.directory_made(asked, id);
        }
        Ok(entry)
    }

    /// Makes a symbolic link.
    pub async fn make_link(
        &self,
        caller: Caller,
        (parent, name): (u64, &[u8]),
        text: &[u8],
    ) -> Result<Entry, FsError> {
        refuse_in_views(&[parent], &[name])?;
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let make = || volume.make_link(&place, text);
        let (asked, answer) = self.make((parent, name), make).await?;
        Ok(self.metadata.entry(asked, &answer, (parent, name)))
    }

    /// Gives a file another name.
    pub async fn link(
        &self,
        caller: Caller,
        id: u64,
        (parent, name): (u64, &[u8]),
    ) -> Result<Entry, FsError> {
        refuse_in_views(&[parent, id], &[name])?;
        let volume = self.on(caller);
        let place = self.metadata.under(parent, name);
        let asked = self.metadata.now();
        self.metadata.name_may_exist(parent, name);
        let attributes = self
            .call(|| volume.link(self.metadata.place(id), &place))
            .await;
        self.metadata.touched(parent);
        let answer = self.complete(attributes?).await?;
        let asked = self.metadata.touched_to(asked, &answer, false);
        Ok(self.metadata.entry(asked, &answer, (parent, name)))
    }
}
