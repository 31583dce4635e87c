//! Checking and repairing the namespace for `weft fsck`.
//!
//! The check runs beside the service on one snapshot; whoever wants it asks until it is done. One
//! at a time: a new one ends the one before.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_meta::Watcher;
use weft_net::Served;
use weft_proto::fsck::{
    AdoptFileRequest, CheckNamespaceReply, CheckNamespaceRequest, Fault, Finding, NamesOfRequest,
    RepairNamespaceReply, RepairNamespaceRequest,
};
use weft_proto::limits::SCRUB_FINDINGS_MAX;

use super::{MetaService, Stable};
use crate::group::Blocking;

/// Findings that are kept for whoever asks.
const KEPT: usize = 100_000;

/// The check that is under way, or was the last.
#[derive(Default)]
pub(super) struct Check(Arc<Mutex<Pass>>);

#[derive(Default)]
struct Pass {
    number: u64,
    told: CheckNamespaceReply,
    ended: bool,
    /// What servers refuse is among what was found.
    owed: bool,
}

impl Pass {
    fn found(&mut self, finding: Finding) {
        if self.told.findings.len() < KEPT {
            self.told.findings.push(finding);
        } else {
            self.told.more += 1;
        }
    }
}

fn locked(pass: &Mutex<Pass>) -> MutexGuard<'_, Pass> {
    pass.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a check: whoever asks hears how.
fn end(pass: &Mutex<Pass>, number: u64, failed: String) {
    let mut pass = locked(pass);
    if pass.number == number {
        pass.ended = true;
        pass.told.failed = failed;
    }
}

/// Takes down what a check finds, as long as it is wanted.
struct Clerk {
    pass: Arc<Mutex<Pass>>,
    number: u64,
}

impl Watcher for Clerk {
    fn seen(&mut self, records: u64, files: u64) -> ControlFlow<()> {
        let mut pass = locked(&self.pass);
        if pass.number != self.number {
            return ControlFlow::Break(());
        }
        pass.told.records += records;
        pass.told.files += files;
        ControlFlow::Continue(())
    }

    fn found(&mut self, finding: Finding) {
        let mut pass = locked(&self.pass);
        if pass.number != self.number {
            return;
        }
        pass.found(finding);
    }
}

impl MetaService {
    fn begin_check(&self, number: u64) {
        let total = self.namespace.counts().map_or(0, |counts| counts.files);
        *locked(&self.check.0) = Pass {
            number,
            told: CheckNamespaceReply {
                total,
                ..CheckNamespaceReply::default()
            },
            ..Pass::default()
        };
        let (namespace, pass) = (self.namespace.clone(), self.check.0.clone());
        let ending = pass.clone();
        let work = move || {
            let mut clerk = Clerk {
                pass: pass.clone(),
                number,
            };
            let checked = catch_unwind(AssertUnwindSafe(|| namespace.check(&mut clerk)));
            let failed = match checked {
                Ok(result) => result.map_or_else(|e| e.to_string(), |()| String::new()),
                Err(_) => "the check panicked: the service's log says more".to_owned(),
            };
            end(&pass, number, failed);
        };
        match self.blocking {
            Blocking::Inline => work(),
            Blocking::Threads => {
                // It ends by itself when another one begins.
                let thread = std::thread::Builder::new().name("weft-check".into());
                if let Err(error) = thread.spawn(work) {
                    end(&ending, number, format!("cannot start a thread: {error}"));
                }
            }
        }
    }

    /// Begins a check, or tells how far it is.
    pub(super) async fn check_namespace(&self, call: Served) {
        if let Ok(request) = call.request::<CheckNamespaceRequest>() {
            if locked(&self.check.0).number != request.pass {
                self.begin_check(request.pass);
            }
            let owed = {
                let pass = locked(&self.check.0);
                pass.owed || pass.number != request.pass
            };
            if !owed {
                let refused = self.refused().await;
                let mut pass = locked(&self.check.0);
                if pass.number == request.pass && !std::mem::replace(&mut pass.owed, true) {
                    for finding in refused {
                        pass.found(finding);
                    }
                }
            }
        }
        let check = |request: &CheckNamespaceRequest| {
            let pass = locked(&self.check.0);
            if pass.number != request.pass {
                // Another check took its place meanwhile: asked again, this one begins anew.
                return Ok(CheckNamespaceReply::default());
            }
            let seen = pass.told.findings.len().min(request.seen as usize);
            let end = pass.told.findings.len().min(seen + SCRUB_FINDINGS_MAX);
            Ok(CheckNamespaceReply {
                done: pass.ended && pass.owed && end == pass.told.findings.len(),
                findings: pass.told.findings[seen..end].to_vec(),
                records: pass.told.records,
                files: pass.told.files,
                total: pass.told.total,
                more: pass.told.more,
                failed: pass.told.failed.clone(),
            })
        };
        self.answer(call, check).await;
    }

    /// Repairs something; nothing is carried to the servers meanwhile.
    pub(super) async fn repair_namespace(&self, call: Served) {
        let now = self.env.clock.now();
        let _turn = self.owed.carrying.write().await;
        let repair = |request: &RepairNamespaceRequest| {
            let finding = &request.finding;
            let refused = finding.fault == Fault::Refused as i32;
            if refused && !self.owed.is_refused(finding.expected) {
                let gone = RepairNamespaceReply {
                    gone: true,
                    done: String::new(),
                };
                return Ok((gone, Stable::AsItIs));
            }
            let reply = self.namespace.repair(now, finding, request.seen.as_ref())?;
            if refused && !reply.done.is_empty() {
                self.owed.taken_back(finding.expected);
            }
            let stable = if reply.done.is_empty() {
                Stable::AsItIs
            } else {
                Stable::Now
            };
            Ok((reply, stable))
        };
        self.answer_with(call, repair).await;
        self.owing.notify_one();
    }

    pub(super) async fn adopt_file(&self, call: Served) {
        let now = self.env.clock.now();
        let adopt = |request: &AdoptFileRequest| {
            Ok((self.namespace.adopt_file(now, request)?, Stable::Now))
        };
        self.answer_with(call, adopt).await;
    }

    pub(super) async fn names_of(&self, call: Served) {
        let names = |request: &NamesOfRequest| self.namespace.names_of(request);
        self.answer(call, names).await;
    }
}
