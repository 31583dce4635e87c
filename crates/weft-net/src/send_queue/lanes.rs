//! The two lanes of a queue and the order in which they are served.

use std::collections::VecDeque;

use super::frame::EncodedFrame;
use crate::limits::URGENT_RUN;

/// The lane in which a frame waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Small frames that are one direction of a call by themselves.
    Urgent,
    /// Frames of large transfers.
    Bulk,
}

/// The frames that wait.
#[derive(Default)]
pub(super) struct Lanes {
    urgent: VecDeque<EncodedFrame>,
    bulk: VecDeque<EncodedFrame>,
    /// Frames of the connection itself among them.
    control: usize,
    /// Urgent bytes that left since the last bulk frame.
    urgent_run: usize,
}

impl Lanes {
    pub(super) fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.bulk.is_empty()
    }

    /// Frames of the connection itself that wait.
    pub(super) fn control_frames(&self) -> usize {
        self.control
    }

    pub(super) fn push(&mut self, lane: Lane, frame: EncodedFrame) {
        self.control += usize::from(frame.control);
        match lane {
            Lane::Urgent => self.urgent.push_back(frame),
            Lane::Bulk => self.bulk.push_back(frame),
        }
    }

    /// The frame that leaves next.
    pub(super) fn pop(&mut self) -> Option<EncodedFrame> {
        let turn_of_bulk = self.urgent_run >= URGENT_RUN || self.urgent.is_empty();
        let bulk = if turn_of_bulk {
            self.bulk.pop_front()
        } else {
            None
        };
        let frame = if let Some(frame) = bulk {
            self.urgent_run = 0;
            frame
        } else {
            let frame = self.urgent.pop_front()?;
            self.urgent_run += frame.bytes;
            frame
        };
        self.control -= usize::from(frame.control);
        Some(frame)
    }
}
