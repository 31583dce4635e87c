//! Attach: one request that turns a path into everything needed to access data.

use weft_layout::Layout;
use weft_proto::meta::{AttachReply, Credentials, Target};
use weft_proto::prost::Message;

use super::Asked;
use crate::names::Access;
use crate::policy::Policy;
use crate::volume::{Attaching, Repeat};
use crate::{Attributes, Error, File, Place, Volume};

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
                return self.opened(&path.to_string(), reply, write, true, asked);
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
            let said = policy_of(path, &reply.attributes).or(self.shared.policy);
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
            policy.check(path, storage)?;
            let (created, known) = (file.created(), file.attributes());
            let has_bytes = known.size > 0 || !known.size_exact;
            if policy.is_written_once() && write && !created && has_bytes {
                let what = format!("write {path} with the policy {policy}");
                return Err(Error::invalid(what, "the file was written before"));
            }
        }
        Ok(file)
    }
}

/// The policy that a file has by itself.
fn policy_of(path: &str, attributes: &Attributes) -> Option<Policy> {
    if attributes.policy.is_empty() {
        return None;
    }
    let parsed = attributes.policy.parse();
    let parsed =
        parsed.inspect_err(|why| tracing::warn!(path, %why, "the file's policy is not known here"));
    parsed.ok()
}
