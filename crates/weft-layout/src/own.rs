//! The columns of a subfile whose cells live on one server, in ascending order.
//!
//! In each block of `hbs` columns the own ones are `servers` apart, and from block to block the
//! first own place moves by a constant, modulo the number of servers. When a block is narrower than
//! the server list, blocks without an own column lie between. By the three-gap theorem only two
//! distances and their sum occur between blocks that have one, so a step is a comparison and an
//! addition; Euclid's algorithm is needed only to start. (Rejected: a table of one period of own
//! columns; it would cost a small request up to `servers` entries.)
//!
//! The theorem, as used by [`OwnColumns::step`]: of the jumps that move the place up by less than
//! `reach` let `up` be the shortest, of those that move it down `down`. From place `x` the shortest
//! jump that ends in `0..reach` is `up` if it fits, else `down` if it fits, else `up + down`.
//! - Both never fit unless they are the same jump: if they move by less than `reach` together, the
//!   longer without the shorter is a jump of the longer's kind, and shorter.
//! - If only `up` fits, a jump down that fits and is shorter than `up` moves by less than `down`
//!   does; without `down` it is a jump up that is shorter than `up`. The same holds for `down`.
//! - If neither fits, a jump up that fits moves by less than `up`; without `up` it is a jump down,
//!   so not shorter than `down`. The same holds for a jump down.

use crate::columns::Columns;
use crate::modular::first_below;
use crate::{Grid, ServerSlot};

/// One own column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) column: u64,
    pub(crate) cell: u64,
    /// The first own place in its block, below `reach`.
    first: u64,
    /// Its place in its block: `first` plus a multiple of the number of servers.
    place: u64,
}

/// A jump over `blocks` blocks that moves the first own place by `shift`.
#[derive(Clone, Copy, Debug)]
struct Jump {
    blocks: u64,
    shift: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnColumns {
    servers: u64,
    hbs: u64,
    hspan: u64,
    left: u64,
    real: u64,
    /// First own place in block 0, modulo `servers`; in block `b` it is `origin + b·drift`.
    origin: u64,
    drift: u64,
    /// A block has an own column when its first own place is below this.
    reach: u64,
    up: Jump,
    down: Jump,
}

impl OwnColumns {
    pub(crate) fn new(columns: &Columns, grid: &Grid, slot: ServerSlot) -> Self {
        let servers = u64::from(grid.servers());
        let &Columns {
            hbs,
            hspan,
            left,
            real,
            ..
        } = columns;
        let drift = (servers - hspan % servers) % servers;
        let back = hspan % servers;
        let reach = hbs.min(servers);
        // Any jump leaves a single block; and if every block has an own column, one block is a
        // jump.
        let (up, down) = if real <= hbs || reach == servers {
            (
                Jump {
                    blocks: 1,
                    shift: drift,
                },
                Jump {
                    blocks: 1,
                    shift: back,
                },
            )
        } else {
            (
                shortest_jump(drift, servers, reach),
                shortest_jump(back, servers, reach),
            )
        };
        let origin = (u64::from(slot.0) + servers - left % servers) % servers;
        Self {
            servers,
            hbs,
            hspan,
            left,
            real,
            origin,
            drift,
            reach,
            up,
            down,
        }
    }

    /// The first own column from `column` on.
    ///
    /// Cost: O(log servers).
    pub(crate) fn seek(&self, column: u64) -> Option<Own> {
        if column >= self.real {
            return None;
        }
        let block = column / self.hbs;
        let from = column % self.hbs;
        let first = (self.origin + block % self.servers * self.drift) % self.servers;
        let place = if from <= first {
            first
        } else {
            first + (from - first).next_multiple_of(self.servers)
        };
        if place < self.hbs {
            return self.own(block, first, place);
        }
        let next = (first + self.drift) % self.servers;
        let more = first_below(
            u128::from(next),
            u128::from(self.drift),
            u128::from(self.servers),
            u128::from(self.reach),
        )? as u64;
        let first = (next + more % self.servers * self.drift) % self.servers;
        self.own(block + 1 + more, first, first)
    }

    /// The own column after this one.
    ///
    /// Cost: O(1), no division.
    #[inline]
    pub(crate) fn step(&self, own: Own) -> Option<Own> {
        let place = own.place + self.servers;
        let next = if place < self.hbs {
            Own {
                column: own.column + self.servers,
                cell: own.cell + self.servers,
                first: own.first,
                place,
            }
        } else if self.real <= self.hbs {
            return None;
        } else {
            self.jump(own)
        };
        (next.column < self.real).then_some(next)
    }

    /// The first own column of the next block that has one, perhaps past the last real column.
    fn jump(&self, own: Own) -> Own {
        let (blocks, first) = if own.first + self.up.shift < self.reach {
            (self.up.blocks, own.first + self.up.shift)
        } else if own.first >= self.down.shift {
            (self.down.blocks, own.first - self.down.shift)
        } else {
            (
                self.up.blocks + self.down.blocks,
                own.first + self.up.shift - self.down.shift,
            )
        };
        Own {
            column: own.column - own.place + blocks * self.hbs + first,
            cell: own.cell - own.place + blocks * self.hspan + first,
            first,
            place: first,
        }
    }

    fn own(&self, block: u64, first: u64, place: u64) -> Option<Own> {
        // Blocks past the last real one are refused before the products, which they could overflow.
        if block > self.real / self.hbs {
            return None;
        }
        let column = block * self.hbs + place;
        let cell = block * self.hspan + self.left + place;
        (column < self.real).then_some(Own {
            column,
            cell,
            first,
            place,
        })
    }
}

/// The fewest blocks, at least 1, that move the first own place by less than `reach`.
fn shortest_jump(drift: u64, servers: u64, reach: u64) -> Jump {
    let (drift, servers) = (u128::from(drift), u128::from(servers));
    let blocks = 1 + first_below(drift, drift, servers, u128::from(reach))
        .expect("as many blocks as servers move by nothing");
    Jump {
        blocks: blocks as u64,
        shift: (blocks * drift % servers) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Order, Subfile};

    #[test]
    fn stepping_and_seeking_find_exactly_the_own_columns() {
        for cells in 1..=40u32 {
            for (servers, hbs, hn) in (1..=9u32)
                .flat_map(|servers| (1..=7u64).map(move |hbs| (servers, hbs)))
                .flat_map(|(servers, hbs)| (1..=4u64).map(move |hn| (servers, hbs, hn)))
            {
                let grid = Grid::new(cells, 1, servers).unwrap();
                for index in 0..hn {
                    let subfile = Subfile {
                        vbs: 1,
                        vn: 1,
                        hbs,
                        hn,
                        index,
                        order: Order::Default,
                    };
                    let columns = Columns::subfile(&grid, &subfile).unwrap();
                    for slot in 0..servers {
                        check(&columns, &grid, slot);
                    }
                }
            }
        }
    }

    fn check(columns: &Columns, grid: &Grid, slot: u32) {
        let expected: Vec<(u64, u64)> = (0..columns.width)
            .map(|column| (column, columns.cell_of(column)))
            .filter(|&(_, cell)| {
                cell < u64::from(grid.cells())
                    && cell % u64::from(grid.servers()) == u64::from(slot)
            })
            .collect();
        let own = OwnColumns::new(columns, grid, ServerSlot(slot));
        let stepped = std::iter::successors(own.seek(0), |&at| own.step(at));
        assert!(
            stepped
                .map(|at| (at.column, at.cell))
                .eq(expected.iter().copied())
        );
        for from in 0..=columns.width {
            let sought = own.seek(from).map(|at| (at.column, at.cell));
            let wanted = expected.iter().copied().find(|&(column, _)| column >= from);
            assert_eq!(
                sought, wanted,
                "{columns:?} {grid:?} slot {slot} from {from}"
            );
        }
    }
}
