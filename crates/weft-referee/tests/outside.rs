//! The referee beside a linearizability checker of others (todc-utils, after Wing, Gong and Lowe),
//! on random histories of atomic operations on several cells.

use proptest::prelude::*;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;
use weft_referee::{FindingKind, What};

use crate::judged::Story;

const CELLS: usize = 3;

/// An operation on whole cells: `Some` of the value of each cell that it touches.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Op {
    writes: bool,
    cells: [Option<u8>; CELLS],
}

struct Cells;

impl Specification for Cells {
    type State = [u8; CELLS];
    type Operation = Op;

    fn init() -> [u8; CELLS] {
        [0; CELLS]
    }

    fn apply(op: &Op, state: &[u8; CELLS]) -> (bool, [u8; CELLS]) {
        let mut after = *state;
        for (now, asked) in after.iter_mut().zip(op.cells) {
            if let Some(value) = asked {
                if op.writes {
                    *now = value;
                } else if *now != value {
                    return (false, *state);
                }
            }
        }
        (true, after)
    }
}

/// An operation of a process, with its times.
#[derive(Clone, Debug)]
struct Timed {
    process: usize,
    begin: i64,
    end: i64,
    op: Op,
}

fn outside(history: &[Timed]) -> bool {
    let mut actions = Vec::new();
    for timed in history {
        actions.push((timed.begin, timed.process, Action::Call(timed.op.clone())));
        actions.push((timed.end, timed.process, Action::Response(timed.op.clone())));
    }
    actions.sort_by_key(|(at, ..)| *at);
    let actions = actions
        .into_iter()
        .map(|(_, process, action)| (process, action));
    WGLChecker::<Cells>::is_linearizable(History::from_actions(actions.collect()))
}

fn referee(history: &[Timed]) -> bool {
    let mut story = Story::default();
    for process in 0..=history.iter().map(|timed| timed.process).max().unwrap_or(0) {
        story.open(process as u64, "posix", -1);
    }
    for timed in history {
        let touched = timed.op.cells.iter().enumerate();
        let touched = touched.filter_map(|(cell, value)| Some((cell as u32, (*value)?)));
        let touched: Vec<(u32, u8)> = touched.collect();
        let open = timed.process as u64;
        if timed.op.writes {
            let cells: Vec<u32> = touched.iter().map(|(cell, _)| *cell).collect();
            story.write(open, timed.begin, timed.end, &cells, touched[0].1);
        } else {
            story.read(open, timed.begin, timed.end, &touched);
        }
    }
    let report = story.check();
    assert!(
        story
            .0
            .iter()
            .all(|event| !matches!(event.what, What::Clear { .. }))
    );
    report.first(FindingKind::Violation).is_none()
}

/// Random intervals of some processes, and an order of effects within them: a history that is
/// linearizable, unless `torn` moves what some reads return.
fn histories() -> impl Strategy<Value = Vec<Timed>> {
    let op = (
        0..4_usize,
        1..6_i64,
        0..4_i64,
        any::<bool>(),
        1..8_u8,
        any::<u16>(),
    );
    (prop::collection::vec(op, 2..14), any::<bool>()).prop_map(|(ops, torn)| {
        let mut free = [0_i64; 4];
        let mut history: Vec<(i64, Timed, u16)> = Vec::new();
        for (n, (process, length, pause, writes, mask, luck)) in (0_u8..).zip(ops) {
            // No two moments are the same.
            let begin = (free[process] + pause) * 100 + 2 * i64::from(n);
            let end = (free[process] + pause + length) * 100 + 2 * i64::from(n) + 1;
            free[process] += pause + length + 1;
            let effect = begin + 1 + i64::from(luck % 997) % (end - begin - 1);
            let cells = std::array::from_fn(|cell| (mask >> cell & 1 != 0).then_some(n + 1));
            let op = Op { writes, cells };
            history.push((
                effect,
                Timed {
                    process,
                    begin,
                    end,
                    op,
                },
                luck,
            ));
        }
        let mut by_effect: Vec<usize> = (0..history.len()).collect();
        by_effect.sort_by_key(|n| history[*n].0);
        let mut state = [0; CELLS];
        let mut older = state;
        for n in by_effect {
            let (_, timed, luck) = &mut history[n];
            if timed.op.writes {
                older = state;
                state = Cells::apply(&timed.op, &state).1;
            } else {
                for (cell, value) in timed.op.cells.iter_mut().enumerate() {
                    if value.is_some() {
                        let old = torn && (*luck >> cell).is_multiple_of(4);
                        *value = Some(if old { older[cell] } else { state[cell] });
                    }
                }
            }
        }
        let mut all: Vec<Timed> = history.into_iter().map(|(_, timed, _)| timed).collect();
        all.sort_by_key(|timed| timed.begin);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// What the referee accuses is wrong, and what is wrong it accuses, but for orders that only a
    /// search would find.
    #[test]
    fn the_referee_and_an_existing_checker_agree(history in histories()) {
        let (right, accused) = (outside(&history), !referee(&history));
        prop_assert!(!(right && accused), "accused without reason");
        prop_assert!(right || accused, "not noticed");
    }
}
