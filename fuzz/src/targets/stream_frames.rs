//! What the other side of a connection says, whichever side that is: read in bounded memory, the same however it is cut, and
//! written as it was read.
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use crate::take::Take;
use holdall::Error;
use holdall_net::protocol::{
    Arrival, Client, ClientFrame, FileId, Frames, INDEX_MAX, Order, RANGES_MAX, Requesting, Server,
    ServerFrame, Told, total,
};
use holdall_net::{Bounds, Tokens};

/// Panics where it does not hold.
pub fn run(data: &[u8]) {
    let mut take = Take::new(data);
    let (side, cut) = (take.u8() % 4, usize::from(take.u8()) + 1);
    let said = take.bytes(usize::MAX);
    frames(said);
    match side {
        0 => same(control_of_server(said, cut), control_of_server(said, usize::MAX)),
        1 => same(control_of_client(said, cut), control_of_client(said, usize::MAX)),
        2 => same(request(said, cut), request(said, usize::MAX)),
        _ => same(answer(said, cut), answer(said, usize::MAX)),
    }
}

/// However it is cut, the same comes of it; what came before an error may be told or not.
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

/// What is read is written as it was.
fn frames(mut said: &[u8]) {
    let any = |kind| {
        let both = [ClientFrame::most_of_control(kind), ClientFrame::most_of_request(kind)];
        let more = [ServerFrame::most_of_control(kind), ServerFrame::most_of_answer(kind)];
        both.into_iter().chain(more).flatten().max()
    };
    let mut frames = Frames::default();
    while let Ok(Some((kind, text))) = frames.take(&mut said, any) {
        if let Ok(frame) = ClientFrame::decode(kind, &text) {
            assert_eq!(frame.encode()[5..], text);
        }
        if let Ok(frame) = ServerFrame::decode(kind, &text) {
            assert_eq!(frame.encode()[5..], text);
        }
    }
}

fn pushed<T>(
    said: &[u8],
    cut: usize,
    mut push: impl FnMut(&[u8]) -> Result<Vec<T>, Error>,
) -> (Vec<T>, Option<Error>) {
    let mut all = Vec::new();
    for part in said.chunks(cut.min(said.len().max(1))) {
        match push(part) {
            Ok(more) => all.extend(more),
            Err(e) => return (all, Some(e)),
        }
    }
    (all, None)
}

fn control_of_server(said: &[u8], cut: usize) -> (Vec<Order>, Option<Error>) {
    let mut server = Server::new(Tokens::default(), &Bounds::default());
    pushed(said, cut, |part| {
        let orders = server.control(part)?;
        for order in &orders {
            if let Order::Open { file, .. } = order {
                let found = (FileId([1; 32]), 1000, vec![0..10]);
                // Where it was closed meanwhile, nothing is said.
                let told = server.opened(*file, Ok(found));
                assert!(told.is_none_or(|(_, index)| index.len() <= 1));
            }
        }
        Ok(orders)
    })
}

fn control_of_client(said: &[u8], cut: usize) -> (Vec<Told>, Option<Error>) {
    let (mut client, _) = Client::new("");
    for _ in 0..4 {
        client.open("x", None).expect("the name is short");
    }
    pushed(said, cut, |part| {
        let told = client.control(part)?;
        for told in &told {
            if let Told::Opened { len, index, .. } = told {
                let ends = index.iter().map(|(at, bytes)| at + bytes.len() as u64);
                assert!(ends.max().unwrap_or(0) <= *len);
                let all: u64 = index.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                assert!(all <= INDEX_MAX);
            }
        }
        Ok(told)
    })
}

fn request(said: &[u8], cut: usize) -> (Vec<u64>, Option<Error>) {
    let mut requesting = Requesting::default();
    let (_, failed) = pushed(said, cut, |part| requesting.push(part).map(|()| Vec::<()>::new()));
    if failed.is_some() {
        return (Vec::new(), failed);
    }
    let request = match requesting.finish() {
        Ok(request) => request,
        Err(e) => return (Vec::new(), Some(e)),
    };
    assert!(request.ranges.len() <= RANGES_MAX);
    let mut server = Server::new(Tokens::default(), &Bounds::default());
    let (mut client, hello) = Client::new("");
    let (_, open) = client.open("x", None).expect("the name is short");
    server.control(&[hello, open].concat()).expect("it is well said");
    server.opened(0, Ok((FileId([1; 32]), 1 << 20, Vec::new())));
    let Ok(mut answering) = server.admit(&request) else { return (Vec::new(), None) };
    let due = total(&request.ranges).expect("it was admitted");
    let (mut sent, mut all) = (0, Vec::new());
    loop {
        let ranges = answering.next(cut as u64);
        if ranges.is_empty() {
            break;
        }
        let len = total(&ranges).expect("they are few");
        assert!(len <= (cut as u64).max(1));
        sent += len;
    }
    assert_eq!(sent, due);
    all.push(due);
    (all, None)
}

fn answer(said: &[u8], cut: usize) -> (Vec<(usize, u64, u8)>, Option<Error>) {
    let ranges = vec![0..3, 3..3, 10..200];
    let mut arrival = Arrival::new(ranges.clone());
    arrival.request(0, 0).expect("something is missing");
    let mut came = Vec::new();
    let (_, failed) = pushed(said, cut, |part| {
        arrival.push(part, |piece| {
            let bytes = piece.bytes.iter().zip(piece.at..);
            came.extend(bytes.map(|(byte, at)| (piece.of, at, *byte)));
            Ok(())
        })?;
        Ok(Vec::<()>::new())
    });
    assert_eq!(arrival.came(), came.len() as u64);
    let missing = total(&arrival.missing()).expect("they are few");
    assert_eq!(arrival.came() + missing, total(&ranges).expect("they are few"));
    (came, failed)
}

/// Frames of both sides, as they are sent.
pub(crate) fn seeds(_: &[u8]) -> Vec<Vec<u8>> {
    let (mut client, hello) = Client::new("token");
    let (file, open) = client.open("models/m.zt", None).expect("the name is short");
    let close = Client::close(file);
    let request = Arrival::new(vec![0..10, 20..30]).request(file, -1).expect("all is missing");
    let control = [vec![0, 3], hello, open, Client::priority(4, 9), close].concat();
    let welcome = ServerFrame::Welcome { version: 1, requests: 4 }.encode();
    let index = vec![0..4, 90..94];
    let told = ServerFrame::File { file: 0, id: FileId([5; 32]), len: 100, index }.encode();
    let answer = ServerFrame::Answer { len: 193 }.encode();
    vec![
        control,
        [vec![1, 5], welcome, told, vec![7; 8]].concat(),
        [vec![2, 9], request].concat(),
        [vec![3, 200], answer, vec![1; 193]].concat(),
    ]
}
