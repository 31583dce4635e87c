//! The processes of clients, and the faults between them and the metadata service.

use super::slot::Maker;
use crate::oracle::Time;

/// A client reports a change within this time, if nothing disturbs it and the network needs up to
/// 5 ms for a message: a report may wait for the one before.
const REPORT_TIMEOUT: Time = 100_000_000;
/// Operations may wait so long for what a dead process held.
const QUIET: Time = 15_000_000_000;
/// The service syncs what lazy clients changed within a second, and the network adds to that.
const LAZY_SYNC: Time = 2_000_000_000;

/// A client, and the process that it has now.
#[derive(Clone, Copy, Debug, Default)]
struct Process {
    life: u64,
    alive: bool,
    /// By the fault with this number.
    disturbed: Option<u64>,
    operations_left: usize,
    finished: bool,
}

/// All processes, and what disturbs them.
pub(super) struct Processes {
    all: Vec<Process>,
    disturbances: u64,
    deaths: u64,
    /// A fault keeps a process from the service now.
    faulty: bool,
    /// The metadata service has died, or lost power.
    service_struck: bool,
    lost_power: bool,
    /// The last death or disturbance.
    trouble: Option<Time>,
}

impl Processes {
    pub(super) fn new(clients: usize, operations: usize) -> Processes {
        let process = Process {
            operations_left: operations,
            ..Process::default()
        };
        Processes {
            all: vec![process; clients],
            disturbances: 0,
            deaths: 0,
            faulty: false,
            service_struck: false,
            lost_power: false,
            trouble: None,
        }
    }

    pub(super) fn born(&mut self, client: usize) -> Maker {
        let disturbed = self.faulty.then_some(self.disturbances);
        let process = &mut self.all[client];
        process.life += 1;
        (process.alive, process.disturbed) = (true, disturbed);
        Maker {
            client,
            life: process.life,
        }
    }

    /// The process of a client has died: which one, and before when all it did was reported.
    pub(super) fn died(&mut self, client: usize, now: Time) -> (Maker, Time) {
        let process = &mut self.all[client];
        process.alive = false;
        let life = process.life;
        let quiet = self.trouble.is_none_or(|trouble| trouble + QUIET < now);
        let reported = now.saturating_sub(REPORT_TIMEOUT) * Time::from(quiet);
        self.trouble = Some(now);
        self.deaths += 1;
        (Maker { client, life }, reported)
    }

    /// A fault is between the metadata service and one client, or all of them.
    pub(super) fn disturb(&mut self, client: Option<usize>, now: Time) {
        self.disturbances += 1;
        self.faulty = true;
        self.trouble = Some(now);
        self.service_struck |= client.is_none();
        for (number, process) in self.all.iter_mut().enumerate() {
            if client.is_none_or(|client| client == number) {
                process.disturbed = Some(self.disturbances);
            }
        }
    }

    /// The fault is repaired.
    pub(super) fn mended(&mut self) {
        self.faulty = false;
    }

    /// The metadata service is about to lose power: what it had before the result was durable.
    pub(super) fn power_lost(&mut self, now: Time) -> Time {
        self.lost_power = true;
        // A service that has died does not know what it has to sync.
        now.saturating_sub(LAZY_SYNC) * Time::from(!self.service_struck)
    }

    /// Whether the metadata service has lost power.
    pub(super) fn has_lost_power(&self) -> bool {
        self.lost_power
    }

    /// The fault that disturbs a client, if it is repaired.
    pub(super) fn disturbance_of(&self, client: usize) -> Option<u64> {
        self.all[client].disturbed.filter(|_| !self.faulty)
    }

    /// A client has reported everything since that fault was repaired.
    pub(super) fn calm(&mut self, client: usize, disturbance: u64) {
        let disturbed = &mut self.all[client].disturbed;
        if *disturbed == Some(disturbance) {
            *disturbed = None;
        }
    }

    pub(super) fn is_disturbed(&self, client: usize) -> bool {
        self.all[client].disturbed.is_some()
    }

    /// Whether this process is there, and is disturbed or not.
    pub(super) fn is_alive(&self, maker: Maker, disturbed: bool) -> bool {
        let process = self.all[maker.client];
        let there = process.alive && process.life == maker.life;
        there && process.disturbed.is_some() == disturbed
    }

    /// Faults so far between clients and the service.
    pub(super) fn disturbances(&self) -> u64 {
        self.disturbances
    }

    /// The same, and deaths.
    pub(super) fn faults(&self) -> u64 {
        self.disturbances + self.deaths
    }

    /// Counts an operation; false if the client has done enough.
    pub(super) fn take_operation(&mut self, client: usize) -> bool {
        let left = &mut self.all[client].operations_left;
        *left = left.saturating_sub(1);
        *left > 0
    }

    /// Whether this is the first time that a client has done enough.
    pub(super) fn finish(&mut self, client: usize) -> bool {
        !std::mem::replace(&mut self.all[client].finished, true)
    }
}
