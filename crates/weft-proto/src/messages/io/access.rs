//! Which bytes of which file a request touches: grid, view and pattern.

/// The parameters of a layout that the mapping needs.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Grid {
    /// Cells of the file.
    #[prost(uint32, tag = "1")]
    pub cells: u32,
    /// Bytes of a basic striping unit.
    #[prost(uint64, tag = "2")]
    pub bsu: u64,
    /// Entries of the layout's server list.
    #[prost(uint32, tag = "3")]
    pub servers: u32,
}

/// Vesta's parameters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Subfile {
    /// BSUs of a block, down the cell.
    #[prost(uint64, tag = "1")]
    pub vbs: u64,
    /// Subfiles interleaved down the cell.
    #[prost(uint64, tag = "2")]
    pub vn: u64,
    /// Cells of a block.
    #[prost(uint64, tag = "3")]
    pub hbs: u64,
    /// Subfiles interleaved across the cells.
    #[prost(uint64, tag = "4")]
    pub hn: u64,
    /// The number of the subfile, of `hn · vn`.
    #[prost(uint64, tag = "5")]
    pub index: u64,
    /// 0 default, 1 row, 2 column.
    #[prost(uint32, tag = "6")]
    pub order: u32,
}

/// PVFS's parameters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Partition {
    /// First byte, in canonical order.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// Bytes visible in each stride.
    #[prost(uint64, tag = "2")]
    pub group: u64,
    /// Bytes from one group to the next.
    #[prost(uint64, tag = "3")]
    pub stride: u64,
}

/// A linear byte space on the grid.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct View {
    /// The kind of view.
    #[prost(oneof = "ViewKind", tags = "1, 2, 3")]
    pub kind: Option<ViewKind>,
}

/// The kinds of views.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum ViewKind {
    /// Vesta's subfile.
    #[prost(message, tag = "1")]
    Subfile(Subfile),
    /// PVFS's partition.
    #[prost(message, tag = "2")]
    Partition(Partition),
    /// One cell.
    #[prost(uint32, tag = "3")]
    Cell(u32),
}

/// A contiguous range of a view.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Contiguous {
    /// First byte in the view.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// How many bytes.
    #[prost(uint64, tag = "2")]
    pub length: u64,
}

/// Equal runs at equal distances, column by column; `gaps[i]` is where the `i`-th group begins.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Runs {
    /// Distance of the group's first run from the end of the group before (for the first group:
    /// from the start of its part).
    #[prost(sint64, repeated, tag = "1")]
    pub gaps: Vec<i64>,
    /// Bytes of each run; a single entry holds for all groups.
    #[prost(uint64, repeated, tag = "2")]
    pub lengths: Vec<u64>,
    /// Runs of each group; empty: one run each.
    #[prost(uint64, repeated, tag = "3")]
    pub times: Vec<u64>,
    /// Distance from one run to the next; empty where each group is one run.
    #[prost(sint64, repeated, tag = "4")]
    pub strides: Vec<i64>,
}

/// The next part, repeated.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PartRepeat {
    /// Distance from one repetition to the next.
    #[prost(sint64, tag = "1")]
    pub stride: i64,
    /// The number of repetitions.
    #[prost(uint64, tag = "2")]
    pub times: u64,
}

/// A part of a request's tree; the parts that it consists of follow it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Part {
    /// Its start, relative to the start of its parent.
    #[prost(sint64, tag = "1")]
    pub at: i64,
    /// The kind of part.
    #[prost(oneof = "PartKind", tags = "2, 3, 4, 5")]
    pub kind: Option<PartKind>,
}

/// The kinds of parts.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum PartKind {
    /// So many bytes.
    #[prost(uint64, tag = "2")]
    Bytes(u64),
    /// The next part, repeated.
    #[prost(message, tag = "3")]
    Repeat(PartRepeat),
    /// The next parts, so many of them, one after another.
    #[prost(uint32, tag = "4")]
    Sequence(u32),
    /// Runs of bytes.
    #[prost(message, tag = "5")]
    Runs(Runs),
}

/// Any pattern, its bytes packed in the order of its parts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Shaped {
    /// The view byte that the start of the first part is relative to.
    #[prost(uint64, tag = "1")]
    pub offset: u64,
    /// The tree, each part before its children; empty: the request touches nothing.
    #[prost(message, repeated, tag = "2")]
    pub parts: Vec<Part>,
}

/// A set of bytes of a view.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Pattern {
    /// The kind of request.
    #[prost(oneof = "PatternKind", tags = "1, 2")]
    pub kind: Option<PatternKind>,
}

/// The kinds of requests.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum PatternKind {
    /// A contiguous range.
    #[prost(message, tag = "1")]
    Contiguous(Contiguous),
    /// A strided, nested, batched or list request.
    #[prost(message, tag = "2")]
    Shaped(Shaped),
}

/// The bytes of a file that one call touches on the receiving server.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Access {
    /// The file.
    #[prost(uint64, tag = "1")]
    pub file: u64,
    /// Layout parameters.
    #[prost(message, required, tag = "2")]
    pub grid: Grid,
    /// View.
    #[prost(message, required, tag = "3")]
    pub view: View,
    /// Request.
    #[prost(message, required, tag = "4")]
    pub pattern: Pattern,
    /// The receiving server's position in the layout's server list.
    #[prost(uint32, tag = "5")]
    pub slot: u32,
    /// The fork.
    #[prost(string, tag = "6")]
    pub fork: String,
    /// The epoch of the client's server map.
    #[prost(uint64, tag = "7")]
    pub epoch: u64,
    /// The number of a checkpoint of the file; 0: the current file.
    #[prost(uint64, tag = "8")]
    pub checkpoint: u64,
}
