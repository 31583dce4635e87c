//! Attach: one request that turns a path into everything needed to access data.

use weft_layout::Layout;
use weft_proto::meta::{AttachReply, AttachRequest, Create, Credentials, LayoutWish, Target};
use weft_proto::prost::Message;

use crate::volume::{Attaching, Repeat};
use crate::{Error, File, Place, Volume};

/// What an attachment is for.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent wishes of a builder, none of them a state"
)]
#[derive(Clone, Debug, Default)]
pub struct Access {
    read: bool,
    write: bool,
    create: Option<Create>,
    nofollow: bool,
    inline: bool,
}

/// What a creator asks of a layout; what is absent comes from the directory or the volume.
#[derive(Clone, Debug, Default)]
pub struct NewLayout {
    /// Cells.
    pub cells: Option<u32>,
    /// Bytes of a basic striping unit.
    pub bsu: Option<u64>,
    /// Bytes of a chunk.
    pub chunk: Option<u32>,
    /// Servers in order, base first; empty: all of them.
    pub servers: Vec<u32>,
    /// The server of cell 0.
    pub base: Option<u32>,
}

impl Access {
    /// Reading.
    pub fn read() -> Access {
        Access {
            read: true,
            ..Access::default()
        }
    }

    /// Writing.
    pub fn write() -> Access {
        Access {
            write: true,
            ..Access::default()
        }
    }

    /// Reading and writing.
    pub fn read_write() -> Access {
        Access {
            read: true,
            write: true,
            ..Access::default()
        }
    }

    /// Create the file with these permission bits if it is not there.
    #[must_use]
    pub fn create(mut self, mode: u32) -> Access {
        self.create = Some(Create {
            mode,
            exclusive: false,
            ..Create::default()
        });
        self
    }

    /// Create the file with these permission bits; fail if it is there.
    #[must_use]
    pub fn create_new(mut self, mode: u32) -> Access {
        self.create = Some(Create {
            mode,
            exclusive: true,
            ..Create::default()
        });
        self
    }

    /// The layout of the file, if it is created.
    #[must_use]
    pub fn layout(mut self, layout: &NewLayout) -> Access {
        if let Some(create) = &mut self.create {
            create.layout = Some(layout.into());
        }
        self
    }

    /// Bits that the mode of a new file loses, unless its directory's default ACL decides.
    #[must_use]
    pub fn umask(mut self, umask: u32) -> Access {
        if let Some(create) = &mut self.create {
            create.umask = umask;
        }
        self
    }

    /// The caller can work with a file whose bytes lie with its metadata: see [`File::inline_data`]. Without it, such a
    /// file's bytes are moved to its cells by the attach, and a new one has them there from the start.
    #[must_use]
    pub fn inline(mut self) -> Access {
        self.inline = true;
        self
    }

    /// Fail if the path ends in a symbolic link.
    #[must_use]
    pub fn no_follow(mut self) -> Access {
        self.nofollow = true;
        self
    }
}

impl From<&NewLayout> for LayoutWish {
    fn from(layout: &NewLayout) -> LayoutWish {
        LayoutWish {
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers.clone(),
            base: layout.base,
        }
    }
}

impl Volume {
    /// Attaches a regular file, creating it if `access` says so. One request.
    ///
    /// # Durability
    /// A file that was created survives power loss.
    pub async fn attach(&self, path: impl Into<Place>, access: Access) -> Result<File, Error> {
        let path = path.into();
        let write = access.write;
        if write && access.inline && access.create.is_none() {
            self.tell_ended_writers().await;
        }
        // Repeating a create that is not exclusive finds the file it made.
        let mut repeat = match &access.create {
            Some(create) if create.exclusive => Repeat::Unsafe,
            _ => Repeat::Safe,
        };
        let mut request = AttachRequest {
            who: (*self.who).clone(),
            target: path.target(!access.nofollow)?,
            read: access.read,
            write,
            create: access.create,
            inline: access.inline,
        };
        let what = format!("attach {path}");
        self.catch_up().await;
        let attaching = Attaching::new(&self.shared);
        let mut created = false;
        loop {
            let (mut reply, run) = self.meta_over(&what, &request, repeat).await?;
            created |= reply.created;
            reply.created = created;
            let id = reply.attributes.id;
            let has_data = crate::stat::is_regular(&reply.attributes);
            if !has_data || self.shared.note_attached_over(run, id, write) {
                attaching.answered();
                return self.opened(&path.to_string(), reply, write, true);
            }
            // The service believes this attachment to be gone. The file is there now, whatever its path leads to.
            request.target = Target {
                at: id,
                ..Target::default()
            };
            request.create = None;
            // It was allowed, and may not be now that the file has its mode.
            request.who = Credentials::default();
            repeat = Repeat::Safe;
        }
    }

    /// Takes over an attachment that another process handed over with [`File::hand_over`]. No message.
    ///
    /// The file stays attached as long as the process that attached it keeps it.
    pub fn adopt(&self, handed: &[u8]) -> Result<File, Error> {
        let what = "adopt an attachment";
        let protocol = |reason: String| Error::Protocol {
            what: what.to_owned(),
            reason,
        };
        let (write, reply) = handed
            .split_first()
            .ok_or_else(|| protocol("it is empty".into()))?;
        let reply = AttachReply::decode(reply).map_err(|e| protocol(e.to_string()))?;
        let name = format!("file {}", reply.attributes.id);
        self.opened(&name, reply, *write == 1, false)
    }

    /// The file of an answer to an attach. No message.
    pub(crate) fn opened(
        &self,
        path: &str,
        reply: AttachReply,
        write: bool,
        own: bool,
    ) -> Result<File, Error> {
        let attributes = reply.attributes.clone();
        let Some(layout) = attributes
            .layout
            .as_ref()
            .filter(|_| crate::stat::is_regular(&attributes))
        else {
            let kind = crate::stat::kind_name(&attributes);
            return Err(Error::NoData {
                path: path.to_owned(),
                kind,
            });
        };
        let layout = Layout::try_from(layout)
            .map_err(|e| Error::of_convert(format!("attach {path}"), &e))?;
        Ok(File::new(
            self.clone(),
            path.to_owned(),
            layout,
            reply,
            write,
            own,
        ))
    }
}
