//! The columns of a subfile whose cells live on one server (its *local* columns), in ascending
//! order.
//!
//! In each block of `hbs` columns the local ones are `servers` apart, and from block to block the
//! first local place moves by a constant, modulo the number of servers. When a block is narrower
//! than the server list, blocks without a local column lie between: the first local places are an
//! arithmetic progression, and the blocks with a local column are its hits in `0..first_limit`. By
//! the three-gap theorem (`arithmetic/progression.rs` proves it) a step from hit to hit is a
//! comparison and an addition; Euclid's algorithm is needed only to start. (Rejected: a table of
//! one period of local columns; it would cost a small request up to `servers` entries.)

use crate::arithmetic::modular::first_below;
use crate::view::columns::Columns;
use crate::{Grid, ServerSlot};

/// A local column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalColumn {
    pub(crate) column: u64,
    pub(crate) cell: u64,
    /// The first local place in its block, below `first_limit`.
    first: u64,
    /// Its place in its block: `first` plus a multiple of the number of servers.
    place: u64,
}

/// A jump of `blocks` blocks that moves the first local place by `shift`.
#[derive(Clone, Copy, Debug)]
struct Jump {
    blocks: u64,
    shift: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalColumns {
    servers: u64,
    hbs: u64,
    hspan: u64,
    left: u64,
    real: u64,
    /// First local place in block 0, modulo `servers`; in block `b` it is `origin + b·drift`.
    origin: u64,
    drift: u64,
    /// A block has a local column when its first local place is below this.
    first_limit: u64,
    up: Jump,
    down: Jump,
}

impl LocalColumns {
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
        let first_limit = hbs.min(servers);
        // Any jump leaves a single block; and if every block has a local column, one block is a
        // jump.
        let (up, down) = if real <= hbs || first_limit == servers {
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
                shortest_jump(drift, servers, first_limit),
                shortest_jump(back, servers, first_limit),
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
            first_limit,
            up,
            down,
        }
    }

    /// The first local column from `column` on.
    ///
    /// Cost: O(log servers).
    pub(crate) fn seek(&self, column: u64) -> Option<LocalColumn> {
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
            return self.local_at(block, first, place);
        }
        let next = (first + self.drift) % self.servers;
        let more = first_below(
            u128::from(next),
            u128::from(self.drift),
            u128::from(self.servers),
            u128::from(self.first_limit),
        )? as u64;
        let first = (next + more % self.servers * self.drift) % self.servers;
        self.local_at(block + 1 + more, first, first)
    }

    /// The local column after this one.
    ///
    /// Cost: O(1), no division.
    #[inline]
    pub(crate) fn step(&self, local: LocalColumn) -> Option<LocalColumn> {
        let place = local.place + self.servers;
        let next = if place < self.hbs {
            LocalColumn {
                column: local.column + self.servers,
                cell: local.cell + self.servers,
                first: local.first,
                place,
            }
        } else if self.real <= self.hbs {
            return None;
        } else {
            self.jump(local)
        };
        (next.column < self.real).then_some(next)
    }

    /// The first local column of the next block that has one, perhaps past the last real column.
    fn jump(&self, local: LocalColumn) -> LocalColumn {
        let (blocks, first) = if local.first + self.up.shift < self.first_limit {
            (self.up.blocks, local.first + self.up.shift)
        } else if local.first >= self.down.shift {
            (self.down.blocks, local.first - self.down.shift)
        } else {
            (
                self.up.blocks + self.down.blocks,
                local.first + self.up.shift - self.down.shift,
            )
        };
        LocalColumn {
            column: local.column - local.place + blocks * self.hbs + first,
            cell: local.cell - local.place + blocks * self.hspan + first,
            first,
            place: first,
        }
    }

    fn local_at(&self, block: u64, first: u64, place: u64) -> Option<LocalColumn> {
        // Blocks past the last real one are refused before the products, which they could overflow.
        if block > self.real / self.hbs {
            return None;
        }
        let column = block * self.hbs + place;
        let cell = block * self.hspan + self.left + place;
        (column < self.real).then_some(LocalColumn {
            column,
            cell,
            first,
            place,
        })
    }
}

/// The fewest blocks, at least 1, that move the first local place by less than `first_limit`.
fn shortest_jump(drift: u64, servers: u64, first_limit: u64) -> Jump {
    let (drift, servers) = (u128::from(drift), u128::from(servers));
    let blocks = 1 + first_below(drift, drift, servers, u128::from(first_limit))
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
    fn stepping_and_seeking_find_exactly_the_local_columns() {
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
        let local = LocalColumns::new(columns, grid, ServerSlot(slot));
        let stepped = std::iter::successors(local.seek(0), |&at| local.step(at));
        assert!(
            stepped
                .map(|at| (at.column, at.cell))
                .eq(expected.iter().copied())
        );
        for from in 0..=columns.width {
            let sought = local.seek(from).map(|at| (at.column, at.cell));
            let wanted = expected.iter().copied().find(|&(column, _)| column >= from);
            assert_eq!(
                sought, wanted,
                "{columns:?} {grid:?} slot {slot} from {from}"
            );
        }
    }
}
