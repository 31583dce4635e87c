//! Why a process of a volume cannot start.

use thiserror::Error;
use weft_meta::MetaError;
use weft_store::StoreError;

/// Why a process cannot start.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// `host:port`.
        address: String,
        /// The error of the system.
        reason: String,
    },
    /// The store cannot be opened.
    #[error("cannot open the store: {0}")]
    Store(#[from] StoreError),
    /// The namespace cannot be opened.
    #[error("cannot open the namespace: {0}")]
    Meta(#[from] MetaError),
    /// A thread that must exist from the beginning cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One error of each variant, with words that its message must contain. The `match` keeps the
    /// list complete.
    fn all() -> Vec<(NodeError, Vec<&'static str>)> {
        let errors = vec![
            NodeError::Listen {
                address: "10.0.0.1:7000".to_owned(),
                reason: "address in use".to_owned(),
            },
            NodeError::Store(StoreError::Closed),
            NodeError::Meta(MetaError::Stale { id: 7 }),
            NodeError::Thread("too many".to_owned()),
        ];
        let words = |error: &NodeError| match error {
            NodeError::Listen { .. } => vec!["10.0.0.1:7000", "address in use"],
            NodeError::Store(_) => vec!["the store: "],
            NodeError::Meta(_) => vec!["the namespace: ", "7"],
            NodeError::Thread(_) => vec!["too many"],
        };
        let each = errors.into_iter();
        each.map(|error| {
            let words = words(&error);
            (error, words)
        })
        .collect()
    }

    #[test]
    fn errors_start_in_lower_case_and_name_their_values() {
        for (error, words) in all() {
            let message = error.to_string();
            assert!(message.starts_with(char::is_lowercase), "{message}");
            assert!(
                !message.ends_with('.') && !message.contains('\n'),
                "{message}"
            );
            for word in words {
                assert!(message.contains(word), "{message}: no {word}");
            }
        }
    }
}
