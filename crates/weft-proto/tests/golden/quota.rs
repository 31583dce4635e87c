//! Messages about quotas, and the growth of files within them.

use bytes::Bytes;
use weft_proto::io::Grid;
use weft_proto::quota::{
    Bound, GrowthLimit, LimitGrowthReply, LimitGrowthRequest, ListQuotasReply, ListQuotasRequest,
    QuotaInfo, QuotaKind, QuotasOfReply, QuotasOfRequest, SetQuotaReply, SetQuotaRequest,
};

use super::cases::Golden;
use super::values::{target, who};

fn info() -> QuotaInfo {
    QuotaInfo {
        kind: QuotaKind::Tree as i32,
        id: 300,
        bytes: 1 << 40,
        files: 7,
        bytes_max: Some(0),
        files_max: Some(300),
        above: 2,
        path: Bytes::from_static(b"/d"),
    }
}

pub fn messages(golden: &mut Golden) {
    golden.call(
        &SetQuotaRequest {
            who: who(),
            kind: QuotaKind::User as i32,
            id: 1000,
            target: Some(target()),
            bytes: Some(Bound { most: Some(0) }),
            files: Some(Bound { most: None }),
            clear: true,
        },
        &SetQuotaReply { quota: info() },
    );
    golden.call(
        &ListQuotasRequest {
            who: who(),
            kind: QuotaKind::Group as i32,
            after: Some(0),
        },
        &ListQuotasReply {
            quotas: vec![info()],
            more: true,
        },
    );
    golden.call(
        &QuotasOfRequest {
            who: who(),
            target: target(),
        },
        &QuotasOfReply {
            quotas: vec![info()],
        },
    );
    golden.call(
        &LimitGrowthRequest {
            files: vec![GrowthLimit {
                file: 7,
                grid: Grid {
                    cells: 4,
                    bsu: 300,
                    servers: 2,
                },
                limit: Some(0),
                others: Some(300),
            }],
            keep: true,
        },
        &LimitGrowthReply {
            sizes: vec![300],
            others: vec![300],
        },
    );
}
