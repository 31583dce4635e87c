//! Intents: listing those that may be carried out, completing and cancelling them.

mod done;
mod page;
mod pending;
mod withdraw;

pub(crate) use done::{intent_done, truncate_done};
pub use page::IntentPage;
pub(crate) use page::{deletes_from, intent, intents_from};
pub(crate) use pending::pending_intents;
pub(crate) use withdraw::withdraw;
