//! A policy with a fault in each callback that its file's name asks for.

use weft_policy::author::{Call, Outcome, Policy};
use weft_policy::{Open, Touched, Values, export_policy};

struct Panics;

impl Policy for Panics {
    const NAME: &'static std::ffi::CStr = c"panics";
    const SUMMARY: &'static std::ffi::CStr = c"it panics when a file is read";
    const VALUES: Values = Values::RECKLESS;

    fn pre_open(_: &mut Call<'_>, open: &Open<'_>, _: &mut Values) -> Outcome<Panics> {
        assert!(!open.path.ends_with("refused"), "no file of this name");
        Ok(Panics)
    }

    fn pre_read(&self, _: &mut Call<'_>, touched: &Touched) -> Outcome {
        panic!("{} bytes are too many", touched.bytes);
    }
}

export_policy!(Panics);
