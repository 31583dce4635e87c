//! How long servers may hold growth limits.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{GROWTH_ATTACH_GRACE, GROWTH_LIMIT_GRACES};

/// Until when servers may hold limits of this volume.
pub(in crate::meta) struct LimitLease {
    lifetime: Duration,
    until: Instant,
    /// When a limit was set by an attach, which outlives the next rounds.
    attached: Option<Instant>,
}

impl LimitLease {
    /// At the start servers may hold limits of the previous incarnation. `grace`: the time that
    /// clients have to come back.
    pub(in crate::meta) fn new(grace: Duration) -> LimitLease {
        let lifetime = grace * GROWTH_LIMIT_GRACES;
        LimitLease {
            lifetime,
            until: Instant::now() + lifetime,
            attached: None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        Instant::now() < self.until
    }

    /// Servers were sent limits.
    pub(super) fn renew(&mut self) {
        self.until = Instant::now() + self.lifetime;
    }

    /// Servers were sent the limit of a file that was attached.
    pub(super) fn renew_for_attach(&mut self) {
        self.renew();
        self.attached = Some(Instant::now());
    }

    /// All servers have removed their limits, except those of recent attaches.
    pub(super) fn end(&mut self) {
        if self
            .attached
            .is_none_or(|at| at.elapsed() > GROWTH_ATTACH_GRACE)
        {
            self.until = Instant::now();
        }
    }
}
