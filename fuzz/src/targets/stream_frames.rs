//! The frames of each side of a connection: they are read in bounded memory, independently of how they are split, and
//! encode to the bytes they were decoded from.
#![allow(clippy::single_range_in_vec_init)] // A slice of one range, not of its numbers.

use crate::take::Take;
use holdall::Error;
use holdall_net::protocol::Piece;
use holdall_net::protocol::{
    Client, ClientFrame, FileId, FrameDecoder, INDEX_MAX, PendingRequest, PendingResponse, Prover,
    RANGES_MAX, Root, Server, ServerAction, ServerFrame, ServerMessage, Step, Tree, proven_len,
    total,
};
use holdall_net::{ServerLimits, Tokens};
use std::ops::Range;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let (side, cut) = (take.u8() % 6, usize::from(take.u8()) + 1);
    let bytes = take.bytes(usize::MAX);
    frames(bytes);
    match side {
        0 => same(control_of_server(bytes, cut), control_of_server(bytes, usize::MAX)),
        1 => same(control_of_client(bytes, cut), control_of_client(bytes, usize::MAX)),
        2 => same(request(bytes, cut), request(bytes, usize::MAX)),
        3 => same(answer(bytes, cut), answer(bytes, usize::MAX)),
        4 => same(proven(bytes, cut), proven(bytes, usize::MAX)),
        _ => proof(bytes, cut),
    }
}

/// Checks that the results do not depend on how the input is split. Results before an error may be missing.
fn same<T: PartialEq + std::fmt::Debug>(
    cut: (Vec<T>, Option<Error>),
    whole: (Vec<T>, Option<Error>),
) {
    let code = |e: &Option<Error>| e.as_ref().map(Error::code);
    assert_eq!(code(&cut.1), code(&whole.1));
    match cut.1 {
        Some(e) => {
            assert!(e.code().starts_with("net/"), "{e}");
            assert!(cut.0.starts_with(&whole.0));
        }
        None => assert_eq!(cut.0, whole.0),
    }
}

/// Checks that decoded frames encode to the same bytes.
fn frames(mut bytes: &[u8]) {
    let any = |kind| {
        let both = [ClientFrame::max_control_len(kind), ClientFrame::max_request_len(kind)];
        let more = [ServerFrame::max_control_len(kind), ServerFrame::max_answer_len(kind)];
        both.into_iter().chain(more).flatten().max()
    };
    let mut frames = FrameDecoder::default();
    while let Ok(Some((kind, text))) = frames.take(&mut bytes, any) {
        if let Ok(frame) = ClientFrame::decode(kind, &text) {
            assert_eq!(frame.encode()[5..], text);
        }
        if let Ok(frame) = ServerFrame::decode(kind, &text) {
            assert_eq!(frame.encode()[5..], text);
        }
    }
}

fn pushed<T>(
    bytes: &[u8],
    cut: usize,
    mut push: impl FnMut(&[u8]) -> Result<Vec<T>, Error>,
) -> (Vec<T>, Option<Error>) {
    let mut all = Vec::new();
    for part in bytes.chunks(cut.min(bytes.len().max(1))) {
        match push(part) {
            Ok(more) => all.extend(more),
            Err(e) => return (all, Some(e)),
        }
    }
    (all, None)
}

fn control_of_server(bytes: &[u8], cut: usize) -> (Vec<ServerAction>, Option<Error>) {
    let mut server = Server::new(Tokens::default(), &ServerLimits::default());
    pushed(bytes, cut, |part| {
        let orders = server.control(part)?;
        for order in &orders {
            if let ServerAction::Open { file, .. } = order {
                let found = (FileId([1; 32]), 1000, vec![0..10]);
                // If the file was closed in the meantime, there is no answer.
                let opened = server.opened(*file, Ok(found));
                assert!(opened.is_none_or(|(_, mut index)| index.next(u64::MAX).len() <= 8));
            }
        }
        Ok(orders)
    })
}

fn control_of_client(bytes: &[u8], cut: usize) -> (Vec<ServerMessage>, Option<Error>) {
    let (mut client, _) = Client::new("");
    for _ in 0..4 {
        client.open("x", None, None).expect("the name is short");
    }
    pushed(bytes, cut, |part| {
        let messages = client.control(part)?;
        for message in &messages {
            if let ServerMessage::Opened { len, index, .. } = message {
                let ends = index.iter().map(|(at, bytes)| at + bytes.len() as u64);
                assert!(ends.max().unwrap_or(0) <= *len);
                let all: u64 = index.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                assert!(all <= INDEX_MAX);
            }
        }
        Ok(messages)
    })
}

fn request(bytes: &[u8], cut: usize) -> (Vec<u64>, Option<Error>) {
    let mut requesting = PendingRequest::default();
    let (_, failed) = pushed(bytes, cut, |part| requesting.push(part).map(|()| Vec::<()>::new()));
    if failed.is_some() {
        return (Vec::new(), failed);
    }
    let request = match requesting.finish() {
        Ok(request) => request,
        Err(e) => return (Vec::new(), Some(e)),
    };
    assert!(request.ranges.len() <= RANGES_MAX);
    let mut server = Server::new(Tokens::default(), &ServerLimits::default());
    let (mut client, hello) = Client::new("");
    let (_, open) = client.open("x", None, None).expect("the name is short");
    server.control(&[hello, open].concat()).expect("the frames are valid");
    server.opened(0, Ok((FileId([1; 32]), 1 << 20, Vec::new())));
    let Ok(mut answering) = server.admit(&request) else { return (Vec::new(), None) };
    let due = total(&request.ranges).expect("it was admitted");
    let (mut sent, mut all) = (0, Vec::new());
    loop {
        let steps = answering.next(cut as u64);
        if steps.is_empty() {
            break;
        }
        let len: u64 = steps.iter().map(Step::len).sum();
        assert!(len <= (cut as u64).max(1));
        sent += len;
    }
    assert_eq!(sent, due);
    all.push(due);
    (all, None)
}

fn answer(bytes: &[u8], cut: usize) -> (Vec<(usize, u64, u8)>, Option<Error>) {
    let ranges = vec![0..3, 3..3, 10..200];
    let mut arrival = PendingResponse::new(ranges.clone());
    arrival.request(0, 0).expect("something is missing");
    let mut came = Vec::new();
    let (_, failed) = pushed(bytes, cut, |part| {
        arrival.push(part, |piece| {
            let bytes = piece.bytes.iter().zip(piece.offset..);
            came.extend(bytes.map(|(byte, at)| (piece.range_index, at, *byte)));
            Ok(())
        })?;
        Ok(Vec::<()>::new())
    });
    assert_eq!(arrival.bytes_received(), came.len() as u64);
    let missing = total(&arrival.missing()).expect("they are few");
    assert_eq!(arrival.bytes_received() + missing, total(&ranges).expect("they are few"));
    (came, failed)
}

/// Returns a file of three full groups and part of another, and its tree.
fn hashed() -> (Vec<u8>, Tree) {
    let file: Vec<u8> = (0..50_000u32).map(|at| (at / 7) as u8).collect();
    let read = |r: Range<u64>| Ok(file[r.start as usize..r.end as usize].to_vec().into());
    let tree = Tree::new(file.len() as u64, &read).expect("the bytes are available");
    (file, tree)
}

/// Checks that only bytes of the file are delivered from a proof, whatever the input.
fn proven(bytes: &[u8], cut: usize) -> (Vec<u64>, Option<Error>) {
    let (file, tree) = hashed();
    let range = 16_000..40_000;
    let mut arrival = PendingResponse::proven(vec![range.clone()], file.len() as u64, tree.root());
    arrival.request(0, 0).expect("something is missing");
    let mut came = Vec::new();
    let (_, failed) = pushed(bytes, cut, |part| {
        arrival.push(part, |piece| {
            came.extend_from_slice(piece.bytes);
            Ok(())
        })?;
        Ok(Vec::<()>::new())
    });
    assert!(file[16_000..40_000].starts_with(&came));
    assert_eq!(arrival.bytes_received(), came.len() as u64);
    (vec![came.len() as u64], None.or(failed))
}

/// Checks that a proof of any range of any file has the stated length and is accepted, and that a proof with a changed
/// bit is not.
fn proof(bytes: &[u8], cut: usize) {
    let mut take = Take::new(bytes);
    let (len, start, end, bit) = (take.u32(), take.u32(), take.u32(), take.u32());
    let len = len % 200_000 + 1;
    let (start, end) = (start % len, end % (len + 1));
    let file: Vec<u8> = (0..len).map(|at| (at / 11 * 5) as u8).collect();
    let (len, range) = (u64::from(len), u64::from(start)..u64::from(end.max(start)));
    let read = |r: Range<u64>| Ok(file[r.start as usize..r.end as usize].to_vec().into());
    let tree = Tree::new(len, &read).expect("the bytes are available");
    let root = tree.root();
    let mut arrival = PendingResponse::proven(vec![range.clone()], len, root);
    let Some(request) = arrival.request(0, 0) else { return };
    let mut server = Server::new(Tokens::default(), &ServerLimits::default());
    let (mut client, hello) = Client::new("");
    let (_, open) = client.open("x", None, Some(Root([0; 32]))).expect("the name is short");
    server.control(&[hello, open].concat()).expect("the frames are valid");
    server.opened(0, Ok((FileId([1; 32]), len, Vec::new())));
    let mut requesting = PendingRequest::default();
    requesting.push(&request).expect("it is a request");
    let request = requesting.finish().expect("it is whole");
    let mut answering = server.admit(&request).expect("it is in the file");
    let mut sent = answering.head();
    let mut prover = Prover::new(tree.into());
    loop {
        let steps = answering.next(cut as u64);
        if steps.is_empty() {
            break;
        }
        sent.extend(prover.spell(&steps, &read).expect("the bytes are available"));
    }
    let head = 13;
    assert_eq!((sent.len() - head) as u64, proven_len(len, &range));
    let mut came = Vec::new();
    for part in sent.chunks(cut) {
        let each = |piece: Piece<'_>| {
            came.extend_from_slice(piece.bytes);
            Ok(())
        };
        arrival.push(part, each).expect("it is right");
    }
    arrival.finish().expect("it is whole");
    assert_eq!(came, file[range.start as usize..range.end as usize]);
    let bit = bit as usize % ((sent.len() - head) * 8);
    sent[head + bit / 8] ^= 1 << (bit % 8);
    let mut arrival = PendingResponse::proven(vec![range], len, root);
    arrival.request(0, 0).expect("it is missing");
    assert_eq!(arrival.push(&sent, |_| Ok(())).expect_err("it is wrong").code(), "net/proof");
}

/// Returns frames of both sides, as they are sent.
pub(crate) fn seeds(_: &[u8]) -> Vec<Vec<u8>> {
    let (mut client, hello) = Client::new("token");
    let (file, open) = client.open("models/m.zt", None, None).expect("the name is short");
    let close = Client::close(file);
    let request =
        PendingResponse::new(vec![0..10, 20..30]).request(file, -1).expect("all is missing");
    let control = [vec![0, 3], hello, open, Client::priority(4, 9), close].concat();
    let welcome = ServerFrame::Welcome { version: 1, requests: 4 }.encode();
    let index = vec![0..4, 90..94];
    let file_frame = ServerFrame::File { file: 0, id: FileId([5; 32]), len: 100, index }.encode();
    let answer = ServerFrame::Answer { len: 193 }.encode();
    let (file, tree) = hashed();
    let head = ServerFrame::Answer { len: proven_len(50_000, &(16_000..40_000)) }.encode();
    let pair = |groups| Step::Pair(groups);
    let group = |at: u64| Step::Bytes(at * 16_384..(at + 1) * 16_384);
    let steps = [pair(0..4), pair(0..2), group(0), group(1), pair(2..4), group(2)];
    let read = |r: Range<u64>| Ok(file[r.start as usize..r.end as usize].to_vec().into());
    let bytes = Prover::new(tree.into()).spell(&steps, &read).expect("the bytes are available");
    vec![
        [vec![4, 250], head, bytes.to_vec()].concat(),
        [vec![5, 99], vec![7; 16]].concat(),
        control,
        [vec![1, 5], welcome, file_frame, vec![7; 8]].concat(),
        [vec![2, 9], request].concat(),
        [vec![3, 200], answer, vec![1; 193]].concat(),
    ]
}
