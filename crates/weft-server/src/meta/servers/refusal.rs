//! Why a server did not do what it was asked.

use weft_layout::ServerId;
use weft_meta::{Intent, MetaError};
use weft_proto::{Code, Failure};

/// What a failed rollback leaves behind, where nothing was done.
pub(in crate::meta) const NOTHING_DONE: &str = "nothing is rolled back";

/// Why an intent, or a request to a server, was not done.
#[derive(Clone, Debug)]
pub(in crate::meta) struct Refusal {
    /// The server that did not do it; `None`: this service could not go on.
    pub(in crate::meta) server: Option<ServerId>,
    pub(in crate::meta) kind: RefusalKind,
    pub(in crate::meta) code: Code,
    /// In words, with the server.
    pub(in crate::meta) reason: String,
}

/// What a retry can be expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::meta) enum RefusalKind {
    /// The server did not answer.
    Silent,
    /// A retry may succeed.
    Temporary,
    /// A retry fails until an administrator acts.
    Permanent,
}

impl Refusal {
    /// This service could not go on.
    pub(in crate::meta) fn here(reason: String) -> Refusal {
        Refusal {
            server: None,
            kind: RefusalKind::Temporary,
            code: Code::Io,
            reason,
        }
    }

    pub(in crate::meta) fn is_silent(&self) -> bool {
        self.kind == RefusalKind::Silent
    }

    pub(in crate::meta) fn is_permanent(&self) -> bool {
        self.kind == RefusalKind::Permanent
    }
}

impl From<MetaError> for Refusal {
    fn from(error: MetaError) -> Refusal {
        Refusal::here(error.to_string())
    }
}

/// The replies of all servers, or the first refusal, permanent ones before others.
pub(in crate::meta) fn all_of<T>(replies: Vec<Result<T, Refusal>>) -> Result<Vec<T>, Refusal> {
    let (mut good, mut worst) = (Vec::with_capacity(replies.len()), None::<Refusal>);
    for reply in replies {
        match reply {
            Ok(reply) => good.push(reply),
            Err(refusal)
                if worst
                    .as_ref()
                    .is_none_or(|worst| refusal.is_permanent() && !worst.is_permanent()) =>
            {
                worst = Some(refusal);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(good), Err)
}

/// The failure of a rollback that a server cannot do. In a tree the names are rolled back already.
pub(in crate::meta) fn not_rolled_back(refusal: &Refusal, intent: &Intent) -> Failure {
    let result = match intent {
        Intent::Tree { .. } => {
            "names are rolled back, and files have the bytes that their servers have"
        }
        Intent::Delete { .. } | Intent::Truncate { .. } | Intent::Checkpoint { .. } => NOTHING_DONE,
    };
    rollback_refused(refusal, result)
}

pub(in crate::meta) fn rollback_refused(refusal: &Refusal, result: &str) -> Failure {
    let what = format!(
        "{}; {result}. weft fsck says what is lost, and after `weft fsck --accept FILE`, or `--accept-server` for all files, the rest of the checkpoint can be used",
        refusal.reason
    );
    Failure::new(refusal.code, what)
}
