//! The idle states of this machine's processors, as a process that serves requests wants them.

use std::sync::Arc;

use weft_net::{Processors, ShallowIdle, UnmanagedProcessors};

/// Processors that stay out of deep idle states while requests come, if `shallow` and this process
/// may decide that; else as the kernel has them.
pub(crate) fn shallow_idle(shallow: bool) -> Arc<dyn Processors> {
    if !shallow {
        return Arc::new(UnmanagedProcessors);
    }
    match ShallowIdle::start() {
        Ok(processors) => Arc::new(processors),
        Err(error) => {
            tracing::debug!(%error, "processors sleep deeply between requests");
            Arc::new(UnmanagedProcessors)
        }
    }
}
