//! Data through views, against real servers.

use crate::common;

use bytes::Bytes;
use common::TestVolume;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use weft_client::{Access, Error, File, Group, NewLayout, Transfer, Volume};
use weft_layout::{CellIndex, Location, Order, Partition, Pattern, Subfile, View, ViewOffset};
use weft_proto::Code;

async fn create(volume: &Volume, path: &str, cells: u32, bsu: u64) -> File {
    let layout = NewLayout {
        cells: Some(cells),
        bsu: Some(bsu),
        ..NewLayout::default()
    };
    let access = Access::read_write().create_new(0o644).layout(&layout);
    volume.attach(path, access).await.unwrap()
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    SmallRng::seed_from_u64(seed).fill_bytes(&mut data);
    data
}

#[tokio::test(flavor = "multi_thread")]
async fn data_written_through_one_view_is_read_through_every_other() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let (cells, bsu) = (5, 7);
    let file = create(&volume, "/file", cells, bsu).await;
    let data = pattern(1, 7 * 5 * 24);
    let whole = file.canonical().unwrap();
    assert_eq!(
        whole
            .write_at(ViewOffset(0), data.clone().into())
            .await
            .unwrap(),
        data.len() as u64
    );

    let canonical = |cell: CellIndex, offset: weft_layout::CellOffset| {
        file.layout().grid().canonical(cell, offset).unwrap().0 as usize
    };
    let subfile = |vbs, vn, hbs, hn, index, order| {
        View::Subfile(Subfile {
            vbs,
            vn,
            hbs,
            hn,
            index,
            order,
        })
    };
    let views = [
        View::canonical(),
        View::Cell(CellIndex(4)),
        subfile(2, 3, 2, 2, 5, Order::Default),
        subfile(2, 3, 2, 2, 1, Order::Row),
        subfile(3, 1, 5, 1, 0, Order::Default),
        subfile(1, 1, 3, 2, 1, Order::Default),
        View::Partition(Partition {
            offset: 3,
            group: 5,
            stride: 11,
        }),
    ];
    for view in views {
        let open = file.view(view).unwrap();
        let size = open.size().await.unwrap();
        let mut read = vec![0xEE; size as usize];
        let moved = open.read_at(ViewOffset(0), &mut read).await.unwrap();
        let mut expected = vec![0xEE; size as usize];
        let mut valid = 0;
        for (at, byte) in expected.iter_mut().enumerate() {
            if let Location::Data(cell, offset) = open.map().locate(ViewOffset(at as u64)).unwrap()
            {
                let from = canonical(cell, offset);
                if from < data.len() {
                    *byte = data[from];
                    valid += 1;
                }
            }
        }
        assert_eq!(read, expected, "{view:?}");
        assert_eq!(moved, valid, "{view:?}: the count includes ghosts or holes");
    }
    file.close().await.unwrap();
    test.stop().await;
}

/// Bytes of each read of a zeroed view.
const LENGTH: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_zeroed_view_put_zeros_where_the_file_has_no_bytes() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 5, 7).await;
    let whole = file.canonical().unwrap();
    // Cells of different lengths, and one without any byte.
    let data: Vec<u8> = (0..300u32).map(|n| (n % 255) as u8 + 1).collect();
    for (at, length) in [(0, 20), (100, 9), (290, 5)] {
        let part = data[at..at + length].to_vec();
        let at = ViewOffset(at as u64);
        whole.write_at(at, part.into()).await.unwrap();
    }
    let subfile = |hbs, hn, index, order| {
        View::Subfile(Subfile {
            vbs: 2,
            vn: 2,
            hbs,
            hn,
            index,
            order,
        })
    };
    let views = [
        View::canonical(),
        View::Cell(CellIndex(3)),
        subfile(2, 2, 3, Order::Default),
        subfile(2, 2, 1, Order::Row),
        subfile(3, 1, 0, Order::Column),
        subfile(5, 1, 1, Order::Default),
        View::Partition(Partition {
            offset: 3,
            group: 5,
            stride: 11,
        }),
    ];
    for view in views {
        let (plain, zeroed) = (file.view(view).unwrap(), file.view(view).unwrap().zeroed());
        let mut expected = vec![0; LENGTH];
        let moved = plain.read_at(ViewOffset(0), &mut expected).await.unwrap();

        let mut read = vec![0xEE; LENGTH];
        let again = zeroed.read_at(ViewOffset(0), &mut read).await.unwrap();
        assert!(read == expected && again == moved, "{view:?}");

        let (mut first, mut second) = (vec![0xEE; 150], vec![0xEE; LENGTH - 150]);
        let mut list = [
            (ViewOffset(0), &mut first[..]),
            (ViewOffset(150), &mut second[..]),
        ];
        zeroed.read_list(&mut list).await.unwrap();
        if !matches!(view, View::Subfile(s) if s.order == Order::Column) {
            assert!([first, second].concat() == expected, "{view:?}: a list");
        }

        // What lies between the bytes in memory stays.
        let apart = Pattern::bytes(1).every(2).times(LENGTH as u64);
        let transfer = Transfer::of(Pattern::bytes(LENGTH as u64)).in_memory(apart);
        let mut scattered = vec![0xEE; 2 * LENGTH];
        zeroed.read_with(&transfer, &mut scattered).await.unwrap();
        let between = scattered.iter().skip(1).step_by(2).all(|b| *b == 0xEE);
        let bytes: Vec<u8> = scattered.iter().step_by(2).copied().collect();
        assert!(between && bytes == expected, "{view:?}: scattered");

        let group = Group::new("zeroed", 1, 0);
        let mut together = vec![0xEE; LENGTH];
        let collective = zeroed.collective(&group);
        let collected = collective.read_at(ViewOffset(0), &mut together).await;
        assert_eq!(collected.unwrap().bytes, moved, "{view:?}");
        assert!(together == expected, "{view:?}: a collective");
    }
    file.close().await.unwrap();
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_writers_of_disjoint_subfiles_fill_the_file() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 4, 100).await;
    let writers = (0..4u64).map(|index| {
        let view = View::Subfile(Subfile {
            vbs: 2,
            vn: 2,
            hbs: 1,
            hn: 2,
            index,
            order: Order::Default,
        });
        let open = file.view(view).unwrap();
        async move {
            let data = Bytes::from(vec![index as u8 + 1; 100 * 2 * 2 * 5]);
            open.write_at(ViewOffset(0), data).await.unwrap()
        }
    });
    let moved: u64 = futures_util::future::join_all(writers)
        .await
        .into_iter()
        .sum();
    assert_eq!(moved, 8000);
    assert_eq!(file.size().await.unwrap(), 8000);
    let mut all = vec![0; 8000];
    file.canonical()
        .unwrap()
        .read_at(ViewOffset(0), &mut all)
        .await
        .unwrap();
    for (at, byte) in all.iter().enumerate() {
        let (cell, offset) = file
            .layout()
            .grid()
            .locate(weft_layout::FileOffset(at as u64))
            .unwrap();
        let (s, t) = (u64::from(cell.0) % 2, (offset.0 / 100 % 4) / 2);
        assert_eq!(u64::from(*byte), s + 2 * t + 1, "at {at}");
    }
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holes_are_zeros_before_the_end_of_their_cell_and_untouched_beyond_it() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 2, 10).await;
    let far = 1 << 41;
    let cell = file.view(View::Cell(CellIndex(1))).unwrap();
    cell.write_at(ViewOffset(far), Bytes::from_static(b"far"))
        .await
        .unwrap();
    let mut buffer = [0xEE; 20];
    assert_eq!(
        cell.read_at(ViewOffset(far - 10), &mut buffer)
            .await
            .unwrap(),
        13
    );
    assert_eq!(
        &buffer,
        b"\0\0\0\0\0\0\0\0\0\0far\xEE\xEE\xEE\xEE\xEE\xEE\xEE"
    );
    let other = file.view(View::Cell(CellIndex(0))).unwrap();
    let mut buffer = [0xEE; 4];
    assert_eq!(other.read_at(ViewOffset(0), &mut buffer).await.unwrap(), 0);
    assert_eq!(buffer, [0xEE; 4]);
    let size = file.size().await.unwrap();
    assert_eq!(file.stat().await.unwrap().size, size);
    assert!(size > 1 << 42);
    let stored: u64 = file.forks().await.unwrap().iter().map(|f| f.stored).sum();
    assert!(stored <= 2 * 4096, "{stored} bytes are stored for 3");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_costs_one_request_per_server_attach_one_and_open_none() {
    let test = TestVolume::start(4).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 8, 64).await;
    file.canonical()
        .unwrap()
        .write_at(ViewOffset(0), vec![7; 1 << 20].into())
        .await
        .unwrap();
    volume.make_directory("/a", 0o755).await.unwrap();
    volume.make_directory("/a/b", 0o755).await.unwrap();
    volume.link("/file", "/a/b/deep").await.unwrap();
    let calls =
        |from: &weft_net::CountersSnapshot| volume.counters().calls_total() - from.calls_total();

    let before = volume.counters();
    let attached = volume
        .attach("/a/b/deep", Access::read_write())
        .await
        .unwrap();
    assert_eq!(calls(&before), 1, "attach of a deep path");

    let before = volume.counters();
    let row = View::Subfile(Subfile {
        vbs: 1,
        vn: 2,
        hbs: 8,
        hn: 1,
        index: 1,
        order: Order::Row,
    });
    let open = attached.view(row).unwrap();
    assert_eq!(calls(&before), 0, "open is local");

    let before = volume.counters();
    let mut buffer = vec![0; 500_000];
    open.read_at(ViewOffset(3), &mut buffer).await.unwrap();
    assert_eq!(
        calls(&before),
        4,
        "a read of thousands of pieces on four servers"
    );
    assert_eq!(buffer, vec![7; 500_000]);

    let before = volume.counters();
    open.write_at(ViewOffset(3), vec![8; 400_000].into())
        .await
        .unwrap();
    assert_eq!(
        calls(&before),
        4,
        "a write of thousands of pieces on four servers"
    );
    // The messages carry the useful bytes and a constant, whatever the number of pieces.
    let sent = volume.counters().bytes_sent - before.bytes_sent;
    assert!(
        sent < 400_000 + 4 * 1000,
        "{sent} bytes were sent for 400000"
    );

    let before = volume.counters();
    attached
        .view(View::Cell(CellIndex(5)))
        .unwrap()
        .read_at(ViewOffset(0), &mut [0; 8])
        .await
        .unwrap();
    assert_eq!(calls(&before), 1, "one cell is on one server");

    let before = volume.counters();
    attached.sync().await.unwrap();
    assert_eq!(calls(&before), 4);

    let handed = attached.hand_over();
    let before = volume.counters();
    let adopted = volume.adopt(&handed).unwrap();
    assert_eq!(
        calls(&before),
        0,
        "an attachment is handed over without a request"
    );
    let mut byte = [0];
    adopted
        .view(row)
        .unwrap()
        .read_at(ViewOffset(3), &mut byte)
        .await
        .unwrap();
    assert_eq!(byte, [8]);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pointer_of_a_view_moves_when_an_operation_begins() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 2, 3).await;
    let open = file.canonical().unwrap();
    open.write(Bytes::from_static(b"hello ")).await.unwrap();
    open.write(Bytes::from_static(b"world")).await.unwrap();
    assert_eq!(open.position(), ViewOffset(11));
    open.seek(ViewOffset(4));
    let (mut one, mut two) = ([0; 3], [0; 3]);
    let (first, second) = tokio::join!(open.read(&mut one), open.read(&mut two));
    assert_eq!((first.unwrap(), second.unwrap()), (3, 3));
    assert_eq!((&one, &two), (b"o w", b"orl"));
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_a_cell_grow_independently() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 3, 8).await;
    file.create_fork(CellIndex(2), "index").await.unwrap();
    let index = file
        .view_of_fork(View::Cell(CellIndex(2)), "index")
        .unwrap();
    index
        .write_at(ViewOffset(5), Bytes::from_static(b"key"))
        .await
        .unwrap();
    file.canonical()
        .unwrap()
        .write_at(ViewOffset(0), vec![1; 24].into())
        .await
        .unwrap();
    let forks: Vec<(u32, String, u64)> = file
        .forks()
        .await
        .unwrap()
        .into_iter()
        .map(|f| (f.cell, f.fork, f.length))
        .collect();
    let data = |cell| (cell, "data".to_owned(), 8);
    assert_eq!(
        forks,
        [data(0), data(1), data(2), (2, "index".to_owned(), 8)]
    );
    file.remove_fork(CellIndex(2), "index").await.unwrap();
    assert_eq!(file.forks().await.unwrap().len(), 3);
    assert_eq!(
        file.size().await.unwrap(),
        24,
        "another fork counts towards the size"
    );
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn truncate_shortens_and_extends_all_cells() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 3, 10).await;
    let open = file.canonical().unwrap();
    let data = pattern(4, 1000);
    open.write_at(ViewOffset(0), data.clone().into())
        .await
        .unwrap();
    for size in [777u64, 25, 5000, 0, 31] {
        file.truncate(size).await.unwrap();
        assert_eq!(file.stat().await.unwrap().size, size);
        assert_eq!(file.size().await.unwrap(), size);
    }
    let mut read = vec![0xEE; 31];
    assert_eq!(open.read_at(ViewOffset(0), &mut read).await.unwrap(), 31);
    assert_eq!(read, [0; 31], "truncated bytes came back");
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unlinked_file_serves_open_handles_and_is_deleted_with_the_last() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 2, 4096).await;
    let open = file.canonical().unwrap();
    open.write_at(ViewOffset(0), vec![9; 100_000].into())
        .await
        .unwrap();
    volume.unlink("/file").await.unwrap();
    assert_eq!(
        volume.stat("/file").await.unwrap_err().code(),
        Code::NotFound
    );
    let mut read = vec![0; 100_000];
    open.read_at(ViewOffset(0), &mut read).await.unwrap();
    assert_eq!(read, vec![9; 100_000]);
    let used = || async {
        volume
            .server_map()
            .await
            .unwrap()
            .servers
            .iter()
            .map(|s| s.usage.used)
            .sum::<u64>()
    };
    file.close().await.unwrap();
    for _ in 0..100 {
        if volume.server_map().await.unwrap().intents == 0 {
            let late = open
                .write_at(ViewOffset(0), vec![1; 10].into())
                .await
                .unwrap_err();
            assert_eq!(late.code(), Code::Stale, "a late write revived the file");
            test.stop().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the space was not freed: {} bytes", used().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn illegal_views_and_offsets_are_refused_before_anything_is_sent() {
    let test = TestVolume::start(2).await;
    let volume = test.client().await;
    let file = create(&volume, "/file", 2, 10).await;
    let before = volume.counters().calls_total();
    let zero = Subfile {
        vbs: 0,
        vn: 1,
        hbs: 1,
        hn: 1,
        index: 0,
        order: Order::Default,
    };
    assert!(matches!(
        file.view(View::Subfile(zero)),
        Err(Error::View(_))
    ));
    let past = Subfile {
        vbs: 1,
        vn: 2,
        hbs: 1,
        hn: 2,
        index: 4,
        order: Order::Default,
    };
    assert!(matches!(
        file.view(View::Subfile(past)),
        Err(Error::View(_))
    ));
    assert!(matches!(
        file.view(View::Cell(CellIndex(2))),
        Err(Error::View(_))
    ));
    let open = file.canonical().unwrap();
    let far = open
        .write_at(ViewOffset(u64::MAX - 3), vec![1; 10].into())
        .await;
    assert_eq!(far.unwrap_err().code(), Code::TooLarge);
    assert_eq!(volume.counters().calls_total(), before);
    test.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_agree_with_a_plain_buffer() {
    let test = TestVolume::start(3).await;
    let volume = test.client().await;
    for seed in 0..6u64 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let layout = NewLayout {
            cells: Some(rng.random_range(1..9)),
            bsu: Some(rng.random_range(1..5000)),
            chunk: Some(rng.random_range(4096..20_000)),
            ..NewLayout::default()
        };
        let access = Access::read_write().create_new(0o600).layout(&layout);
        let file = volume
            .attach(format!("/model-{seed}"), access)
            .await
            .unwrap();
        let open = file.canonical().unwrap();
        let mut model: Vec<u8> = Vec::new();
        for step in 0..120 {
            let at = rng.random_range(0..200_000usize);
            let most = if rng.random() { 60_000 } else { 200 };
            let len = rng.random_range(0..most);
            match rng.random_range(0..10) {
                0..=4 => {
                    let data = pattern(seed * 1000 + step, len);
                    open.write_at(ViewOffset(at as u64), data.clone().into())
                        .await
                        .unwrap();
                    if len > 0 {
                        model.resize(model.len().max(at + len), 0);
                        model[at..at + len].copy_from_slice(&data);
                    }
                }
                5 if step % 4 == 0 => {
                    file.truncate(at as u64).await.unwrap();
                    model.resize(at, 0);
                }
                5 => file.sync().await.unwrap(),
                _ => {
                    let mut read = vec![0; len];
                    open.read_at(ViewOffset(at as u64), &mut read)
                        .await
                        .unwrap();
                    let mut expected = vec![0; len];
                    if at < model.len() {
                        let end = model.len().min(at + len);
                        expected[..end - at].copy_from_slice(&model[at..end]);
                    }
                    assert!(
                        read == expected,
                        "seed {seed} step {step}: {len} bytes at {at}"
                    );
                }
            }
            if step % 10 == 0 {
                assert_eq!(
                    file.size().await.unwrap(),
                    model.len() as u64,
                    "seed {seed} step {step}"
                );
            }
        }
        file.close().await.unwrap();
        let attributes = volume.stat(format!("/model-{seed}")).await.unwrap();
        assert_eq!(attributes.size, model.len() as u64);
        assert!(attributes.size_exact, "the size of a closed file is exact");
    }
    test.stop().await;
}
