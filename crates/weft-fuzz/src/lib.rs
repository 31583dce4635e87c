//! Every decoder of bytes that come from a disk or a wire, fed with anything.
//!
//! A decoder is a function that decodes and encodes again; the crates that own the bytes list
//! theirs. Here are, for each, valid bytes to begin with ([`Target::seeds`]: the golden bytes of
//! documents and tests) and what must hold whatever it is fed ([`Target::feed`]). Two drive them:
//! `tests/decoders.rs`, which every build runs with random and mutated bytes, and the targets of
//! libFuzzer in `fuzz/`, which `scripts/fuzz.sh` runs for as long as one likes.
//!
//! Deliberately absent: bytes that other programs decode for Weft (tables of the key-value engine).

mod mutate;
mod seeds;

use weft_proto::decoders;

pub use mutate::{Dice, mutated};

/// Decodes bytes and encodes what they say; `None`: they were refused.
pub type Decoder = fn(&[u8]) -> Option<Vec<u8>>;

/// What a decoder must give for bytes that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// These bytes: there is one form only.
    One,
    /// Bytes for which it gives themselves: fields that it does not know are skipped.
    Settled,
    /// Bytes for which it gives such bytes: runs of a request may be joined at first, and what
    /// became one run is told in another way then.
    Converted,
}

/// A decoder under test.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose bytes: the name of a target of libFuzzer.
    pub family: &'static str,
    /// Which of them.
    pub name: &'static str,
    /// What it must give.
    pub form: Form,
    decode: Decoder,
}

/// The families, each a target of libFuzzer.
pub const FAMILIES: [&str; 6] = [
    "store",
    "engine",
    "namespace",
    "frames",
    "messages",
    "conversions",
];

/// All decoders.
pub fn targets() -> Vec<Target> {
    let mut all = Vec::new();
    let mut add = |family, form, decoders: &mut dyn Iterator<Item = (&'static str, Decoder)>| {
        all.extend(decoders.map(|(name, decode)| Target {
            family,
            name,
            form,
            decode,
        }));
    };
    let store = weft_store::DECODERS.iter().copied();
    add("store", Form::One, &mut { store });
    let kept = decoders::KEPT.iter().copied();
    add("store", Form::Settled, &mut { kept });
    let engine = weft_kv::DECODERS.iter().copied();
    add("engine", Form::One, &mut { engine });
    let namespace = weft_meta::record::DECODERS.iter().copied();
    add("namespace", Form::Settled, &mut { namespace });
    let frames = decoders::FRAMES.iter().copied();
    add("frames", Form::One, &mut { frames });
    add("messages", Form::Settled, &mut decoders::messages());
    let conversions = decoders::CONVERSIONS.iter().copied();
    add("conversions", Form::Converted, &mut { conversions });
    all
}

impl Target {
    /// Valid bytes of this decoder.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let taken = |bytes: &&Vec<u8>| (self.decode)(bytes).is_some();
        seeds::all().iter().filter(taken).cloned().collect()
    }

    /// Whether the decoder takes these bytes.
    ///
    /// # Panics
    /// When what must hold does not: that is what is looked for.
    pub fn feed(&self, bytes: &[u8]) -> bool {
        let Some(given) = (self.decode)(bytes) else {
            return false;
        };
        match self.form {
            Form::One => assert!(given == bytes, "{}: another form is taken", self.name),
            Form::Settled => self.assert_settled(&given),
            Form::Converted => match (self.decode)(&given) {
                Some(again) => self.assert_settled(&again),
                None => panic!("{}: what was decoded is refused", self.name),
            },
        }
        true
    }
}

impl Target {
    fn assert_settled(&self, bytes: &[u8]) {
        let again = (self.decode)(bytes);
        assert!(
            again.as_deref() == Some(bytes),
            "{}: what was decoded does not come back",
            self.name
        );
    }
}

/// Feeds a decoder of a family with bytes, the first of which says which decoder.
pub fn feed(family: &str, bytes: &[u8]) {
    let of_family: Vec<Target> = targets()
        .into_iter()
        .filter(|t| t.family == family)
        .collect();
    if let Some((which, bytes)) = bytes.split_first() {
        of_family[usize::from(*which) % of_family.len()].feed(bytes);
    }
}
