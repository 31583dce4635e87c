//! The bytes of what is asked and told about quotas.

use bytes::Bytes;
use weft_proto::Kind;
use weft_proto::io::Grid;
use weft_proto::quota::{
    Bound, GrowthLimit, LimitGrowthReply, LimitGrowthRequest, ListQuotasReply, ListQuotasRequest,
    QuotaInfo, QuotaKind, QuotasOfReply, QuotasOfRequest, SetQuotaReply, SetQuotaRequest,
};

use super::{call, target, who};

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

pub(super) fn quotas(kind: Kind) -> Kind {
    let (who, target) = (who(), target());
    match kind {
        Kind::SetQuota => call(
            &SetQuotaRequest {
                who,
                kind: QuotaKind::User as i32,
                id: 1000,
                target: Some(target),
                bytes: Some(Bound { most: Some(0) }),
                files: Some(Bound { most: None }),
                clear: true,
            },
            "0a0b08e80710641a04041be807100118e807220a08011204612f62ff18012a02080032003801",
            &SetQuotaReply { quota: info() },
            "0a19080310ac02188080808080202007280030ac02380242022f64",
        ),
        Kind::ListQuotas => call(
            &ListQuotasRequest {
                who,
                kind: QuotaKind::Group as i32,
                after: Some(0),
            },
            "0a0b08e80710641a04041be80710021800",
            &ListQuotasReply {
                quotas: vec![info()],
                more: true,
            },
            "0a19080310ac02188080808080202007280030ac02380242022f641001",
        ),
        Kind::QuotasOf => call(
            &QuotasOfRequest { who, target },
            "0a0b08e80710641a04041be807120a08011204612f62ff1801",
            &QuotasOfReply {
                quotas: vec![info()],
            },
            "0a19080310ac02188080808080202007280030ac02380242022f64",
        ),
        _ => call(
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
            "0a1008071207080410ac021802180020ac021001",
            &LimitGrowthReply {
                sizes: vec![300],
                others: vec![300],
            },
            "0a02ac021202ac02",
        ),
    }
}
