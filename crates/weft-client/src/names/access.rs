//! What an attachment is for, and what a creator asks of a layout.

use bytes::Bytes;
use weft_layout::Storage;
use weft_parity::Shape;
use weft_proto::meta::{AttachRequest, Create, Credentials, KeepSmall, LayoutOptions};
use weft_proto::{parity_to_wire, storage_to_wire};

use super::place::Place;
use crate::Error;
use crate::policy::Policy;

/// What an attachment is for.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent options of a builder, none of them a state"
)]
#[derive(Clone, Debug, Default)]
pub struct Access {
    read: bool,
    write: bool,
    create: Option<Create>,
    nofollow: bool,
    inline: bool,
    keep: Option<KeepSmall>,
    pub(crate) cautious: bool,
    pub(crate) policy: Option<Policy>,
}

/// What a creator asks of a layout; what is absent comes from the directory or the volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// How the servers keep the chunks.
    pub storage: Option<Storage>,
    /// Only servers with at least so many replicas.
    pub replicas: Option<u32>,
    /// Parity of the file when it is quiet; `Some(None)`: none. Each of its servers has one replica
    /// more than a row has pieces of parity.
    pub parity: Option<Option<Shape>>,
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

    /// The caller can work with a file whose bytes lie with its metadata: see
    /// [`File::inline_data`]. Without it, such a file's bytes are moved to its cells by the attach,
    /// and a new one has them there from the start.
    #[must_use]
    pub fn inline(mut self) -> Access {
        self.inline = true;
        self
    }

    /// Reads, writes, clears and truncations by this attachment are *cautious*: each of them is
    /// atomic towards all cautious ones of all clients, and all of them happen in one order, on all
    /// servers. Without this they are *reckless*, and faster: each server does its part when it
    /// arrives.
    ///
    /// One such operation moves at most 64 MiB on each server. Collective calls, copies and
    /// operations on a file whose bytes lie with its metadata are not affected.
    /// # Source
    /// Vesta §4.3.
    #[must_use]
    pub fn cautious(mut self) -> Access {
        self.cautious = true;
        self
    }

    /// How much order the operations by this attachment have, instead of what the file says.
    ///
    /// # Errors
    /// The attach fails with [`Error::Refused`] if a file of this kind cannot have it.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Access {
        self.policy = Some(policy);
        self
    }

    /// The caller, who follows a [`Watch`](crate::Watch), keeps small files that it reads: it may
    /// open them again, or read [`File::inline_data`](crate::File::inline_data), until the watch
    /// reports that the file was changed ([`File::is_kept`](crate::File::is_kept)). With a
    /// directory, up to `files` that follow a name there are attached, too:
    /// [`File::take_ahead`](crate::File::take_ahead).
    #[must_use]
    pub fn keep_small(mut self, directory: u64, after: &[u8], files: u32) -> Access {
        self.keep = Some(KeepSmall {
            directory,
            after: Bytes::copy_from_slice(after),
            files,
        });
        self
    }

    /// Fail if the path ends in a symbolic link.
    #[must_use]
    pub fn no_follow(mut self) -> Access {
        self.nofollow = true;
        self
    }

    /// The request that attaches what a place names.
    ///
    /// # Errors
    /// Where the place is no path that the service takes.
    pub(crate) fn request(self, place: &Place, who: Credentials) -> Result<AttachRequest, Error> {
        Ok(AttachRequest {
            who,
            target: place.target(!self.nofollow)?,
            read: self.read,
            write: self.write,
            create: self.create,
            inline: self.inline,
            keep: self.keep,
        })
    }
}

impl From<&NewLayout> for LayoutOptions {
    fn from(layout: &NewLayout) -> LayoutOptions {
        LayoutOptions {
            cells: layout.cells,
            bsu: layout.bsu,
            chunk: layout.chunk,
            servers: layout.servers.clone(),
            base: layout.base,
            storage: layout.storage.map(storage_to_wire),
            replicas: layout.replicas,
            parity: layout.parity.map(parity_to_wire),
        }
    }
}
