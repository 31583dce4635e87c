//! Attach: one request that turns a path into everything needed to access data.

use weft_layout::Layout;
use weft_proto::meta::{AttachReply, Credentials, KeptSmall, SmallFile, Target};
use weft_proto::prost::Message;
use weft_proto::text::escape;
use weft_proto::{Code, Retry};

use super::Asked;
use crate::names::Access;
use crate::policy::{Policies, Policy};
use crate::volume::{Attaching, Repeat};
use crate::{Attributes, Error, File, Place, Volume};

impl File {
    /// Whether its policy says that it is not written once it has bytes.
    fn must_be_unwritten(&self) -> bool {
        self.values().written_once && self.writable() && !self.created()
    }

    /// Refuses a file that has bytes if it must not.
    fn check_unwritten(&self) -> Result<(), Error> {
        let Some(policy) = self.policy().filter(|_| self.must_be_unwritten()) else {
            return Ok(());
        };
        Err(Error::Refused {
            what: format!("write {} with the policy {policy}", self.path()),
            code: Code::Permission,
            errno: rustix::io::Errno::PERM.raw_os_error(),
            retry: Retry::Never,
            message: "the file was written before".to_owned(),
        })
    }
}

impl Volume {
    /// Attaches a regular file, creating it if `access` says so. One request.
    ///
    /// # Durability
    /// A file that was created survives power loss.
    pub async fn attach(&self, path: impl Into<Place>, access: Access) -> Result<File, Error> {
        let path = path.into();
        let asked = Asked {
            cautious: access.cautious,
            policy: access.policy,
        };
        let mut request = access.request(&path, (*self.who).clone())?;
        let write = request.write;
        if write && request.inline && request.create.is_none() {
            self.tell_ended_writers().await;
        }
        // Repeating a create that is not exclusive finds the file it made.
        let mut repeat = match &request.create {
            Some(create) if create.exclusive => Repeat::Unsafe,
            _ => Repeat::Safe,
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
            let has_data = crate::names::is_regular(&reply.attributes);
            if !has_data || self.shared.note_attached_over(run, id, write) {
                attaching.answered();
                let ahead = reply
                    .kept
                    .as_mut()
                    .map(|kept| std::mem::take(&mut kept.ahead));
                let epoch = reply.epoch;
                let file = self.opened(&path.to_string(), reply, write, true, asked)?;
                self.opened_ahead(&file, ahead.unwrap_or_default(), epoch, run);
                if !file.attributes().size_exact && file.must_be_unwritten() {
                    // It counts as inexact while it is attached for writing.
                    if file.size().await? > 0 {
                        file.check_unwritten()?;
                    }
                }
                file.do_pending().await?;
                return Ok(file);
            }
            // To the service this attachment does not exist. The file exists now, whatever its
            // path leads to.
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

    /// The small files that came with an answer.
    fn opened_ahead(&self, file: &File, ahead: Vec<SmallFile>, epoch: u64, run: u64) {
        let folder = file
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let open = |small: SmallFile| {
            let path = format!("{folder}/{}", escape(&small.name));
            let id = small.attributes.id;
            let reply = AttachReply {
                attributes: small.attributes,
                epoch,
                inline: Some(small.inline),
                kept: Some(KeptSmall::default()),
                ..AttachReply::default()
            };
            // Otherwise the attachment does not exist to the service any more.
            if !self.shared.note_attached_over(run, id, false) {
                return None;
            }
            self.opened(&path, reply, false, true, Asked::default())
                .ok()
        };
        *file.0.ahead.lock() = ahead.into_iter().filter_map(open).collect();
    }

    /// Takes over an attachment that another process handed over with [`File::hand_over`]. No
    /// message.
    ///
    /// The file stays attached as long as the process that attached it keeps it.
    pub fn adopt(&self, handed: &[u8]) -> Result<File, Error> {
        let what = "adopt an attachment";
        let protocol = |reason: String| Error::Protocol {
            what: what.to_owned(),
            reason,
        };
        let (how, reply) = handed
            .split_first()
            .ok_or_else(|| protocol("it is empty".into()))?;
        let reply = AttachReply::decode(reply).map_err(|e| protocol(e.to_string()))?;
        let name = format!("file {}", reply.attributes.id);
        let asked = Asked::from_the_wire(how >> 1);
        self.opened(&name, reply, how & 1 != 0, false, asked)
    }

    /// The file of an answer to an attach. No message.
    pub(crate) fn opened(
        &self,
        path: &str,
        reply: AttachReply,
        write: bool,
        own: bool,
        asked: Asked,
    ) -> Result<File, Error> {
        let asked_at = self.shared.env.clock.now();
        let attributes = reply.attributes.clone();
        let Some(layout) = attributes
            .layout
            .as_ref()
            .filter(|_| crate::names::is_regular(&attributes))
        else {
            let kind = crate::names::kind_name(&attributes);
            return Err(Error::NoData {
                path: path.to_owned(),
                kind,
            });
        };
        let layout = Layout::try_from(layout)
            .map_err(|e| Error::of_convert(format!("attach {path}"), &e))?;
        let storage = layout.storage();
        // What a file or the volume says is taken as far as the file can have it.
        let implied = || {
            let default = || {
                let policies = &self.shared.policies;
                self.shared.policy.map(|policy| policies.latest(policy))
            };
            let said = self.policy_of(path, &reply.attributes).or_else(default);
            said.and_then(|policy| policy.as_far_as(storage))
        };
        let policy = asked.policy.or_else(implied);
        let asked = Asked { policy, ..asked };
        let file = File::new(
            self.clone(),
            path.to_owned(),
            layout,
            reply,
            write,
            own,
            asked,
        );
        // An error ends the attachment again.
        if let Some(policy) = asked.policy {
            file.begin_policy(policy)?;
            let known = file.attributes();
            if known.size_exact && known.size > 0 {
                file.check_unwritten()?;
            }
        }
        file.note_open(asked_at);
        Ok(file)
    }

    /// The policy that a file has by itself. One that is not known here may ask for any order: it
    /// is taken for the strictest.
    fn policy_of(&self, path: &str, attributes: &Attributes) -> Option<Policy> {
        if attributes.policy.is_empty() {
            return None;
        }
        let found = self.shared.policies.find(&attributes.policy);
        Some(found.unwrap_or_else(|why| {
            tracing::warn!(path, %why, "the file's policy is not known here: `posix` takes its place");
            Policy::POSIX
        }))
    }

    /// The policies that this client knows.
    pub fn policies(&self) -> &Policies {
        &self.shared.policies
    }
}
