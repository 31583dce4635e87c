//! Headers and bodies decoded from arbitrary bytes.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use weft_proto::prost::Message;
use weft_proto::{
    Flags, FrameError, HEADER_BYTES, Header, Kind, body_from, checkpoint, delegation, io, limits,
    meta, quota, session, upkeep,
};

fn kinds() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::ALL)
}

/// Decodes a frame from all of its bytes, like a receiver.
fn receive(bytes: &[u8]) -> Result<(Header, Vec<u8>, Vec<u8>), Option<FrameError>> {
    let (head, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(None)?;
    let header = Header::decode(head)?;
    let body_len = header.body_len as usize;
    let body = rest.get(..body_len).ok_or(None)?;
    header.check_body(head, body)?;
    let payload = rest
        .get(body_len..body_len + header.payload_len as usize)
        .ok_or(None)?;
    header.check_payload(payload)?;
    Ok((header, body.to_vec(), payload.to_vec()))
}

fn frame(kind: Kind, flags: u16, request: u64, body: &[u8], payload: &[Vec<u8>]) -> Vec<u8> {
    let parts: Vec<Bytes> = payload.iter().cloned().map(Bytes::from).collect();
    let header = Header::encode(kind, Flags(flags), request, body, &parts);
    [&header[..], body, &payload.concat()].concat()
}

/// Decodes `bytes` as every type of message.
#[allow(clippy::too_many_lines)] // a table
fn decode_all(kind: Kind, bytes: &[u8]) {
    macro_rules! each {
        ($($message:ty),*) => { $(let _ = body_from::<$message>(kind, bytes);)* };
    }
    each!(
        session::Hello,
        session::Challenge,
        session::Proof,
        session::Welcome,
        session::Ping,
        session::Pong,
        session::Credit,
        session::Cancel,
        session::Nothing,
        session::Never,
        weft_proto::Failure,
        io::ReadRequest,
        io::ReadReply,
        io::WriteRequest,
        io::WriteReply,
        io::SyncRequest,
        io::SyncReply,
        io::CellStatusRequest,
        io::CellStatusReply,
        io::TruncateCellsRequest,
        io::TruncateCellsReply,
        io::DeleteCellsRequest,
        io::DeleteCellsReply,
        io::CreateForkRequest,
        io::CreateForkReply,
        io::RemoveForkRequest,
        io::RemoveForkReply,
        io::DataRunsRequest,
        io::DataRunsReply,
        io::ClearRangeRequest,
        io::ClearRangeReply,
        io::ExtendCellsRequest,
        io::ExtendCellsReply,
        io::AdviseRequest,
        io::AdviseReply,
        io::CopyRangeRequest,
        io::CopyRangeReply,
        io::SendRangeRequest,
        io::SendRangeReply,
        checkpoint::CheckpointRequest,
        checkpoint::RollbackRequest,
        checkpoint::DropCheckpointRequest,
        checkpoint::MakeCheckpointRequest,
        checkpoint::ListCheckpointsReply,
        quota::LimitGrowthRequest,
        quota::LimitGrowthReply,
        quota::SetQuotaRequest,
        quota::SetQuotaReply,
        quota::ListQuotasRequest,
        quota::ListQuotasReply,
        quota::QuotasOfRequest,
        quota::QuotasOfReply,
        upkeep::ScrubRequest,
        upkeep::ScrubStatusRequest,
        upkeep::ScrubStatusReply,
        upkeep::DisksRequest,
        upkeep::DisksReply,
        meta::AttachRequest,
        meta::AttachReply,
        meta::ReportRequest,
        meta::ReportReply,
        meta::DetachRequest,
        delegation::DelegateRequest,
        delegation::DelegateReply,
        delegation::ChangeNamesRequest,
        delegation::ChangeNamesReply,
        meta::StatRequest,
        meta::StatReply,
        meta::SetAttributesRequest,
        meta::TruncateRequest,
        meta::MakeDirectoryRequest,
        meta::MakeLinkRequest,
        meta::MakeNodeRequest,
        meta::LinkRequest,
        meta::UnlinkRequest,
        meta::RemoveDirectoryRequest,
        meta::UnlinkReply,
        meta::RenameRequest,
        meta::RenameReply,
        meta::ListRequest,
        meta::ListReply,
        meta::ReadLinkRequest,
        meta::ReadLinkReply,
        meta::GetXattrRequest,
        meta::GetXattrReply,
        meta::SetXattrRequest,
        meta::XattrDone,
        meta::ListXattrRequest,
        meta::ListXattrReply,
        meta::RemoveXattrRequest,
        meta::ServerMapRequest,
        meta::ServerMapReply,
        meta::HeartbeatRequest,
        meta::HeartbeatReply,
        meta::ReassertRequest,
        meta::ReassertReply
    );
}

proptest! {
    #[test]
    fn an_encoded_frame_decodes_to_the_same_values(
        kind in kinds(), flags in 0u16..8, request: u64,
        body in vec(any::<u8>(), 0..300), payload in vec(vec(any::<u8>(), 0..300), 0..4),
    ) {
        let bytes = frame(kind, flags, request, &body, &payload);
        let (header, found, tail) = receive(&bytes).unwrap();
        prop_assert_eq!((header.kind, header.flags.0, header.request), (kind, flags, request));
        prop_assert_eq!(found, body);
        prop_assert_eq!(tail, payload.concat());
    }

    #[test]
    fn the_checksums_are_crc_32c(
        request: u64, body in vec(any::<u8>(), 0..300), payload in vec(vec(any::<u8>(), 0..3000), 0..4),
    ) {
        let bytes = frame(Kind::Write, 2, request, &body, &payload);
        let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        prop_assert_eq!(field(24), crc32c::crc32c(&payload.concat()));
        prop_assert_eq!(field(28), crc32c::crc32c_append(crc32c::crc32c(&bytes[..28]), &body));
    }

    #[test]
    fn a_frame_with_any_flipped_bit_is_refused(
        kind in kinds(), body in vec(any::<u8>(), 0..60), payload in vec(any::<u8>(), 0..60),
        at: proptest::sample::Index, bit in 0u8..8,
    ) {
        let mut bytes = frame(kind, 2, 16, &body, &[payload]);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(receive(&bytes).is_err(), "bit {} of byte {}", bit, at);
    }

    #[test]
    fn a_truncated_frame_is_refused(
        body in vec(any::<u8>(), 0..60), payload in vec(any::<u8>(), 0..60), cut: proptest::sample::Index,
    ) {
        let bytes = frame(Kind::Write, 2, 16, &body, &[payload]);
        let cut = cut.index(bytes.len());
        prop_assert!(receive(&bytes[..cut]).is_err());
    }

    #[test]
    fn a_decoded_header_never_exceeds_the_bounds(bytes: [u8; HEADER_BYTES], honest in any::<bool>()) {
        let mut bytes = bytes;
        if honest {
            bytes[..4].copy_from_slice(b"WEFT");
            (bytes[4], bytes[5], bytes[6], bytes[7]) = (32, 0, bytes[6] & 7, 0);
        }
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert!(header.body_len <= limits::BODY_MAX);
            prop_assert!(header.payload_len <= limits::PAYLOAD_MAX);
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(kind in kinds(), bytes in vec(any::<u8>(), 0..200)) {
        decode_all(kind, &bytes);
    }

    /// The bytes have plausible tags, wire types and lengths.
    #[test]
    fn almost_valid_bytes_are_a_message_or_an_error(
        kind in kinds(),
        fields in vec((1u32..20, 0u8..6, any::<u64>(), vec(any::<u8>(), 0..20)), 0..12),
    ) {
        let mut bytes = Vec::new();
        for (tag, wire_type, number, tail) in fields {
            weft_proto::prost::encoding::encode_varint(u64::from(tag << 3 | u32::from(wire_type)), &mut bytes);
            if wire_type != 3 && wire_type != 4 {
                weft_proto::prost::encoding::encode_varint(number >> (number % 64), &mut bytes);
            }
            bytes.extend(tail);
        }
        decode_all(kind, &bytes);
    }

    #[test]
    fn other_protocols_are_recognized_by_any_prefix(prefix in vec(any::<u8>(), 0..8)) {
        let seen = prefix.len().min(4);
        prop_assert_eq!(Header::check_begin(&prefix).is_ok(), prefix[..seen] == b"WEFT"[..seen]);
    }
}

#[test]
fn each_defect_has_its_own_error() {
    let good = Header::encode(Kind::Ping, Flags::LAST, 1, &[], &[]);
    let with = |at: usize, bytes: &[u8]| {
        let mut header = good;
        header[at..at + bytes.len()].copy_from_slice(bytes);
        Header::decode(&header)
    };
    assert_eq!(with(0, b"HTTP"), Err(FrameError::Magic(*b"HTTP")));
    assert_eq!(with(4, &[0]), Err(FrameError::Kind(0)));
    assert_eq!(with(4, &[7]), Err(FrameError::Kind(7)));
    assert_eq!(with(5, &[1]), Err(FrameError::Flags(0x0102)));
    assert_eq!(with(6, &[8]), Err(FrameError::Flags(8)));
    let (body, payload) = (limits::BODY_MAX + 1, limits::PAYLOAD_MAX + 1);
    assert_eq!(
        with(16, &body.to_le_bytes()),
        Err(FrameError::BodyTooLong(body))
    );
    assert_eq!(
        with(20, &payload.to_le_bytes()),
        Err(FrameError::PayloadTooLong(payload))
    );
    let damaged = with(8, &[2]).unwrap();
    let mut head = good;
    head[8] = 2;
    assert!(matches!(
        damaged.check_body(&head, &[]),
        Err(FrameError::HeaderChecksum { .. })
    ));
    let header = Header::decode(&good).unwrap();
    assert!(matches!(
        header.check_payload(b"x"),
        Err(FrameError::PayloadChecksum { .. })
    ));
}

#[test]
fn the_largest_frame_is_legal() {
    let (body, payload) = (
        vec![1; limits::BODY_MAX as usize],
        vec![2; limits::PAYLOAD_MAX as usize],
    );
    let bytes = frame(Kind::Write, 2, u64::MAX, &body, &[payload]);
    receive(&bytes).unwrap();
}

#[test]
fn unknown_fields_are_skipped() {
    let mut bytes = session::Cancel { request: 300 }.encode_to_vec();
    bytes.extend_from_slice(&[0xf8, 0x06, 0x01]); // field 111, a number
    bytes.extend_from_slice(&[0xfa, 0x06, 0x02, 0xff, 0xff]); // field 111, bytes
    let cancel: session::Cancel = body_from(Kind::Cancel, &bytes).unwrap();
    assert_eq!(cancel.request, 300);
}
