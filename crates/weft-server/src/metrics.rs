//! Counters, gauges and latencies of a process, as Prometheus text over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use weft_net::Counters;
use weft_proto::Kind;
use weft_store::{DiskState, Store};

/// A stage of a call in the server.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// From the decoded request to the last byte handed to the wire.
    Total,
    /// In the store, cache included.
    Disk,
    /// Waiting for metadata to be on stable storage.
    Sync,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    kind: &'static str,
    stage: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    kind: &'static str,
}

/// The measurements of one process.
#[derive(Debug)]
pub struct Metrics {
    stages: Family<StageLabels, Histogram, fn() -> Histogram>,
    copied: AtomicU64,
    net: Arc<Counters>,
}

fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(10e-6, 2.0, 20))
}

impl Metrics {
    /// Measurements that include the wire counters `net`.
    pub fn new(net: Arc<Counters>) -> Arc<Metrics> {
        Arc::new(Metrics {
            stages: Family::new_with_constructor(buckets as fn() -> Histogram),
            copied: AtomicU64::new(0),
            net,
        })
    }

    pub(crate) fn stage(&self, kind: Kind, stage: Stage, took: Duration) {
        let stage = match stage {
            Stage::Total => "total",
            Stage::Disk => "disk",
            Stage::Sync => "sync",
        };
        let labels = StageLabels {
            kind: kind.name(),
            stage,
        };
        self.stages
            .get_or_create(&labels)
            .observe(took.as_secs_f64());
    }

    pub(crate) fn copied(&self, bytes: u64) {
        self.copied.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that jobs copied between buffers, excluding copies in the store.
    pub fn copied_bytes(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Calls, frames and bytes of the wire.
    pub fn net(&self) -> &Counters {
        &self.net
    }
}

/// A value that may fall, with its name and what it says.
pub type GaugeValue = (&'static str, &'static str, u64);

/// What a process also measures of an I/O server.
pub struct Measured {
    /// Its store.
    pub store: Store,
    /// Gauges, as of now.
    pub gauges: Box<dyn Fn() -> Vec<GaugeValue> + Send + Sync>,
}

#[derive(Debug)]
struct Process {
    metrics: Arc<Metrics>,
    io: Option<Measured>,
}

impl std::fmt::Debug for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Measured")
    }
}

impl Process {
    fn counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        let net = self.metrics.net.snapshot();
        let mut counts = vec![
            (
                "weft_net_sent_bytes",
                "Bytes sent, headers included",
                net.bytes_sent,
            ),
            (
                "weft_net_received_bytes",
                "Bytes received, headers included",
                net.bytes_received,
            ),
            ("weft_net_frames_sent", "Frames sent", net.frames_sent),
            (
                "weft_net_frames_received",
                "Frames received",
                net.frames_received,
            ),
            (
                "weft_job_copied_bytes",
                "Bytes that jobs copied between buffers",
                self.metrics.copied_bytes(),
            ),
        ];
        if let Some(io) = &self.io {
            counts.extend(store_counts(&io.store));
        }
        counts
    }
}

#[allow(clippy::too_many_lines)] // a table
fn store_counts(store: &Store) -> [(&'static str, &'static str, u64); 32] {
    let c = store.counters();
    [
        (
            "weft_store_reads",
            "Reads requested from the store",
            c.reads,
        ),
        (
            "weft_store_read_bytes",
            "Bytes read from the store",
            c.read_bytes,
        ),
        ("weft_store_writes", "Pieces written to the store", c.writes),
        (
            "weft_store_write_bytes",
            "Bytes written to the store",
            c.write_bytes,
        ),
        (
            "weft_store_copied_bytes",
            "Bytes that the store copied between buffers",
            c.copied_bytes,
        ),
        (
            "weft_store_cache_hits",
            "Blocks served from the cache",
            c.cache_hits,
        ),
        (
            "weft_store_cache_misses",
            "Blocks that came from the disk",
            c.cache_misses,
        ),
        ("weft_store_prefetched", "Blocks read ahead", c.prefetched),
        (
            "weft_store_prefetched_used",
            "Blocks read ahead that were then used",
            c.prefetched_used,
        ),
        (
            "weft_store_prefetched_unused",
            "Blocks read ahead that were not used",
            c.prefetched_unused,
        ),
        (
            "weft_store_placed_runs",
            "Runs on the disks that blocks were placed in",
            c.placed_runs,
        ),
        (
            "weft_store_placed_blocks",
            "Blocks placed in runs on the disks",
            c.placed_blocks,
        ),
        ("weft_store_disk_reads", "Reads of the disk", c.disk_reads),
        (
            "weft_store_disk_read_bytes",
            "Bytes read from the disk",
            c.disk_read_bytes,
        ),
        (
            "weft_store_disk_writes",
            "Writes to the disk",
            c.disk_writes,
        ),
        (
            "weft_store_disk_write_bytes",
            "Bytes written to the disk",
            c.disk_write_bytes,
        ),
        ("weft_store_syncs", "Group commits", c.syncs),
        (
            "weft_store_sync_callers",
            "Callers answered by group commits",
            c.sync_callers,
        ),
        (
            "weft_store_log_appends",
            "Appends to the log",
            c.log_appends,
        ),
        (
            "weft_store_log_bytes",
            "Bytes appended to the log",
            c.log_bytes,
        ),
        (
            "weft_store_applies",
            "Times the log was applied to the index",
            c.applies,
        ),
        (
            "weft_store_stalls",
            "Times a write waited for memory or log space",
            c.stalls,
        ),
        (
            "weft_store_bad_checksums",
            "Checksums that did not match",
            c.bad_checksums,
        ),
        (
            "weft_store_memory_faults",
            "Blocks whose bytes changed in this server's memory",
            c.memory_faults,
        ),
        (
            "weft_store_chunks_put",
            "Addressed chunks stored",
            c.chunks_put,
        ),
        (
            "weft_store_chunks_known",
            "Addressed chunks that were to be stored and existed",
            c.chunks_known,
        ),
        (
            "weft_store_chunks_named",
            "Addressed chunks that were written by their names",
            c.chunks_named,
        ),
        (
            "weft_store_chunks_cleaned",
            "Addressed chunks that the cleaner removed",
            c.chunks_cleaned,
        ),
        (
            "weft_store_cleaned_bytes",
            "Bytes of addressed chunks that the cleaner removed",
            c.cleaned_bytes,
        ),
        (
            "weft_store_scrub_chunks",
            "Chunks that the scrub verified",
            c.scrub_chunks,
        ),
        (
            "weft_store_scrub_bytes",
            "Bytes that the scrub read from the disk",
            c.scrub_bytes,
        ),
        (
            "weft_store_scrub_bad_blocks",
            "Bad blocks that the scrub found, counted again in each pass",
            c.scrub_bad_blocks,
        ),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DiskLabels {
    disk: u32,
    path: String,
}

/// Per disk: used and free space, failures, and whether it gets new data.
fn of_disks(store: &Store, encoder: &mut DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
    let (used, available) = (Family::default(), Family::default());
    let (errors, in_use) = (Family::<DiskLabels, Counter>::default(), Family::default());
    for disk in store.disks() {
        let labels = DiskLabels {
            disk: u32::from(disk.number),
            path: disk.path,
        };
        let set = |family: &Family<DiskLabels, Gauge>, value: u64| {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            family.get_or_create(&labels).set(value);
        };
        set(&used, disk.used);
        set(&available, disk.available);
        errors.get_or_create(&labels).inc_by(disk.errors);
        set(&in_use, u64::from(disk.state == DiskState::InUse));
    }
    for (name, help, unit, family) in [
        (
            "weft_disk_used",
            "Bytes used by files, by disk",
            Some(&Unit::Bytes),
            used,
        ),
        (
            "weft_disk_available",
            "Bytes available for files, by disk",
            Some(&Unit::Bytes),
            available,
        ),
        (
            "weft_disk_in_use",
            "1 if the disk gets new data",
            None,
            in_use,
        ),
    ] {
        let metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        family.encode(metric)?;
    }
    let metric = encoder.encode_descriptor(
        "weft_disk_errors",
        "Failed operations of the disk",
        None,
        MetricType::Counter,
    )?;
    errors.encode(metric)
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for (name, help, value) in self.counts() {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        let calls: Family<CallLabels, Counter> = Family::default();
        for (kind, count) in self.metrics.net.snapshot().calls {
            let kind = kind.name();
            calls.get_or_create(&CallLabels { kind }).inc_by(count);
        }
        let metric =
            encoder.encode_descriptor("weft_calls", "Calls, by kind", None, MetricType::Counter)?;
        calls.encode(metric)?;
        if let Some(io) = &self.io {
            let usage = io.store.usage();
            for (name, help, value) in [
                (
                    "weft_store_capacity",
                    "Capacity of the store",
                    usage.capacity,
                ),
                ("weft_store_used", "Bytes used by files", usage.used),
                (
                    "weft_store_available",
                    "Bytes available for files",
                    usage.available,
                ),
            ] {
                let metric =
                    encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
                ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
            }
            for (name, help, value) in (io.gauges)() {
                let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
            }
            of_disks(&io.store, &mut encoder)?;
        }
        Ok(())
    }
}

/// Serves `GET /metrics` on an already bound listener until the task is dropped.
pub async fn serve_metrics(
    listener: tokio::net::TcpListener,
    metrics: Arc<Metrics>,
    io: Option<Measured>,
) -> std::io::Result<()> {
    let mut registry = Registry::default();
    registry.register_with_unit(
        "weft_stage",
        "Time of calls by kind and stage",
        Unit::Seconds,
        metrics.stages.clone(),
    );
    registry.register_collector(Box::new(Process { metrics, io }));
    let registry = Arc::new(registry);
    let page = get(move || {
        let registry = registry.clone();
        async move {
            let mut text = String::new();
            match prometheus_client::encoding::text::encode(&mut text, &registry) {
                Ok(()) => Ok(text),
                Err(e) => Err((axum::http::StatusCode::INTERNAL_SERVER_ERROR, e.to_string())),
            }
        }
    });
    axum::serve(listener, Router::new().route("/metrics", page)).await
}
