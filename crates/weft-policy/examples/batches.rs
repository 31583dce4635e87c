//! `batches`: writes leave together, after so many or when the first has waited for a second; names
//! of chunks are kept coherent (CAPFS §3.6: "commit after every n requests").

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weft_policy::author::{Call, Outcome, Policy};
use weft_policy::{Kept, Open, Touched, Values, export_policy};

/// How many writes leave together.
const BATCH: u32 = 64;

/// One open of a file.
struct Batches {
    writes: AtomicU32,
}

impl Policy for Batches {
    const NAME: &'static std::ffi::CStr = c"batches";
    const SUMMARY: &'static std::ffi::CStr =
        c"writes leave 64 at a time, or after a second; reads are as with for-2";
    const VALUES: Values = Values {
        in_order: false,
        names: Kept::Coherent,
        written_once: false,
        delay: Some(Duration::from_secs(1)),
    };

    fn pre_open(_: &mut Call<'_>, _: &Open<'_>, _: &mut Values) -> Outcome<Batches> {
        Ok(Batches {
            writes: AtomicU32::new(0),
        })
    }

    fn post_write(&self, call: &mut Call<'_>, _: &Touched, _: i64) -> Outcome {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        if writes.is_multiple_of(BATCH) {
            call.commit();
        }
        Ok(())
    }
}

export_policy!(Batches);
