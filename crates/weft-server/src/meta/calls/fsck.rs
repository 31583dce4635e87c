//! Checks and repairs the namespace for `weft fsck`.
//!
//! The check runs beside the service on one snapshot; `weft fsck` polls until it is done. There is
//! one at a time: a new one ends the previous.

use std::panic::{AssertUnwindSafe, catch_unwind};

use weft_net::Served;
use weft_proto::fsck::{
    AdoptFileRequest, CheckNamespaceRequest, Fault, NamesOfRequest, RepairNamespaceReply,
    RepairNamespaceRequest,
};

use crate::config::Blocking;
use crate::meta::MetaService;
use crate::meta::answer::Durability;

impl MetaService {
    fn begin_check(&self, number: u64) {
        let total = self.namespace.counts().map_or(0, |counts| counts.files);
        let mut recorder = self.check.begin(number, total);
        let (namespace, unstarted) = (self.namespace.clone(), recorder.clone());
        let mut work = move || {
            let checked = catch_unwind(AssertUnwindSafe(|| namespace.check(&mut recorder)));
            let failed = match checked {
                Ok(result) => result.map_or_else(|e| e.to_string(), |()| String::new()),
                Err(_) => "the check panicked; see the log of the metadata service".to_owned(),
            };
            recorder.end(failed);
        };
        match self.blocking {
            Blocking::Inline => work(),
            Blocking::Threads => {
                // The thread ends by itself when another check begins.
                let thread = std::thread::Builder::new().name("weft-check".into());
                if let Err(error) = thread.spawn(work) {
                    unstarted.end(format!("cannot start a thread: {error}"));
                }
            }
        }
    }

    /// Begins a check, or reports its progress.
    pub(in crate::meta) async fn check_namespace(&self, call: Served) {
        if let Ok(request) = call.request::<CheckNamespaceRequest>() {
            if !self.check.is(request.pass) {
                self.begin_check(request.pass);
            }
            if self.check.lacks_refused(request.pass) {
                let refused = self.refused_intents().await;
                self.check.add_refused(request.pass, refused);
            }
        }
        let check = |request: &CheckNamespaceRequest| Ok(self.check.report(request));
        self.answer(call, check).await;
    }

    /// Repairs a finding; no intent runs meanwhile.
    pub(in crate::meta) async fn repair_namespace(&self, call: Served) {
        let now = self.env.clock.now();
        let _paused = self.intents.pause().await;
        let repair = |request: &RepairNamespaceRequest| {
            let finding = &request.finding;
            let refused = finding.fault == Fault::Refused as i32;
            if refused && !self.intents.is_refused(finding.expected) {
                let gone = RepairNamespaceReply {
                    gone: true,
                    done: String::new(),
                };
                return Ok((gone, Durability::None));
            }
            let reply = self.namespace.repair(now, finding, request.seen.as_ref())?;
            if refused && !reply.done.is_empty() {
                self.intents.withdrawn_by_repair(finding.expected);
            }
            let durability = if reply.done.is_empty() {
                Durability::None
            } else {
                Durability::Now
            };
            Ok((reply, durability))
        };
        self.answer_with(call, repair).await;
        self.new_intents.notify_one();
    }

    pub(in crate::meta) async fn adopt_file(&self, call: Served) {
        let now = self.env.clock.now();
        let adopt = |request: &AdoptFileRequest| {
            Ok((self.namespace.adopt_file(now, request)?, Durability::Now))
        };
        self.answer_with(call, adopt).await;
    }

    pub(in crate::meta) async fn names_of(&self, call: Served) {
        let names = |request: &NamesOfRequest| self.namespace.names_of(request);
        self.answer(call, names).await;
    }
}
