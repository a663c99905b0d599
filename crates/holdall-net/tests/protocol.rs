//! Both ends of the protocol over a simulated network: bytes arrive cut anywhere, streams in any order, and connections
//! end at any byte. Deterministic for a given seed.
#![allow(clippy::single_range_in_vec_init)] // One range is meant, not its numbers.

use holdall_net::protocol::{
    Client, FileId, GROUP, INDEX_MAX, PendingRequest, PendingResponse, Prover, Refusal,
    RefusalReason, ResponseStream, Root, Server, ServerAction, ServerFrame, ServerMessage, Step,
    Tree, proven_len, total,
};
use holdall_net::{ServerLimits, Tokens};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// A pseudo-random number generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % count.max(1)
    }
}

/// One direction of a stream: the bytes that were sent and have not arrived, and whether the stream ends after them.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_ended: bool,
}

impl Pipe {
    fn take(&mut self, count: usize) -> Vec<u8> {
        self.bytes.drain(..count.min(self.bytes.len())).collect()
    }
}

/// A request's stream.
struct Stream {
    /// The index of the client's response that it belongs to.
    of: usize,
    up: Pipe,
    down: Pipe,
    requesting: Option<PendingRequest>,
    answering: Option<ResponseStream>,
    is_done: bool,
}

/// A connection, and both ends.
struct Connection {
    server: Server,
    client: Client,
    up: Pipe,
    down: Pipe,
    streams: BTreeMap<u64, Stream>,
    file: u32,
    opened: Option<(FileId, Index)>,
}

/// The bytes of an index, with their offsets.
type Index = Vec<(u64, Vec<u8>)>;

/// The server's file, and whether the client knows its hash.
struct World {
    file: Vec<u8>,
    id: FileId,
    index: Vec<Range<u64>>,
    tree: Option<Arc<Tree>>,
}

impl World {
    fn new(file: Vec<u8>, id: FileId, index: Vec<Range<u64>>) -> World {
        World { file, id, index, tree: None }
    }

    fn proven(mut self) -> World {
        self.tree = Some(Arc::new(tree(&self.file)));
        self
    }

    fn root(&self) -> Option<Root> {
        self.tree.as_ref().map(|tree| tree.root())
    }

    fn arrival(&self, ranges: &[Range<u64>]) -> PendingResponse {
        match self.root() {
            Some(root) => PendingResponse::proven(ranges.to_vec(), self.file.len() as u64, root),
            None => PendingResponse::new(ranges.to_vec()),
        }
    }

    /// Returns the bytes to send for these steps.
    fn spell(&self, steps: &[Step]) -> Vec<u8> {
        let read = |range: Range<u64>| self.file[range.start as usize..range.end as usize].to_vec();
        match &self.tree {
            Some(tree) => Prover::new(Arc::clone(tree))
                .spell(steps, &|r| Ok(read(r).into()))
                .unwrap()
                .to_vec(),
            None => {
                let bytes = steps.iter().flat_map(|step| match step {
                    Step::Bytes(range) => read(range.clone()),
                    Step::Pair(_) => panic!("nothing is to be proven"),
                });
                bytes.collect()
            }
        }
    }
}

fn tree(file: &[u8]) -> Tree {
    let read = |r: Range<u64>| Ok(file[r.start as usize..r.end as usize].to_vec().into());
    Tree::new(file.len() as u64, &read).unwrap()
}

fn file(len: usize) -> Vec<u8> {
    let mut chance = Chance(7);
    (0..len).map(|_| chance.below(256) as u8).collect()
}

impl Connection {
    fn new(known: Option<FileId>, root: Option<Root>, token: &str, tokens: &Tokens) -> Connection {
        let (mut client, hello) = Client::new(token);
        let (file, open) = client.open("m.zt", known, root).unwrap();
        let up = Pipe { bytes: hello.into_iter().chain(open).collect(), is_ended: false };
        Connection {
            server: Server::new(tokens.clone(), &ServerLimits::default()),
            client,
            up,
            down: Pipe::default(),
            streams: BTreeMap::new(),
            file,
            opened: None,
        }
    }

    /// Opens a stream that requests the missing bytes of a response.
    fn ask(&mut self, of: usize, arrival: &mut PendingResponse, priority: i32) {
        let Some(request) = arrival.request(self.file, priority) else { return };
        let number = 4 * (self.streams.len() as u64 + 1);
        let up = Pipe { bytes: request.into(), is_ended: true };
        let requesting = Some(PendingRequest::default());
        let down = Pipe::default();
        let stream = Stream { of, up, down, requesting, answering: None, is_done: false };
        self.streams.insert(number, stream);
    }

    /// Delivers some bytes on some stream.
    fn step(
        &mut self,
        world: &World,
        arrivals: &mut [PendingResponse],
        out: &mut [Vec<Vec<u8>>],
        chance: &mut Chance,
    ) -> usize {
        let most = [1, 7, 100, 5000][chance.below(4)];
        let count = 1 + chance.below(most);
        match chance.below(2 + 2 * self.streams.len()) {
            0 => {
                let bytes = self.up.take(count);
                for order in self.server.control(&bytes).unwrap() {
                    match order {
                        ServerAction::Send(bytes) => self.down.bytes.extend(bytes),
                        ServerAction::Open { file, path, with_proofs } => {
                            assert_eq!(path, "m.zt");
                            assert_eq!(with_proofs, world.tree.is_some());
                            let found = (world.id, world.file.len() as u64, world.index.clone());
                            let (frame, mut index) = self.server.opened(file, Ok(found)).unwrap();
                            self.down.bytes.extend(frame);
                            self.down.bytes.extend(world.spell(&index.next(u64::MAX)));
                        }
                        ServerAction::Close { .. } | ServerAction::Priority { .. } => {}
                    }
                }
                bytes.len()
            }
            1 => {
                let bytes = self.down.take(count);
                for message in self.client.control(&bytes).unwrap() {
                    match message {
                        ServerMessage::Welcome { requests } => assert_eq!(requests, 16),
                        ServerMessage::Opened { id, len, index, .. } => {
                            assert_eq!(len, world.file.len() as u64);
                            let index = index.into_iter().map(|(at, b)| (at, b.to_vec()));
                            self.opened = Some((id, index.collect()));
                        }
                        ServerMessage::Refused { refusal, .. } => panic!("{refusal:?}"),
                    }
                }
                bytes.len()
            }
            other => {
                let stream = self.streams.values_mut().nth((other - 2) / 2).unwrap();
                match other % 2 {
                    0 => stream.serve(&self.server, world, count),
                    _ => stream.arrive(arrivals, out, count),
                }
            }
        }
    }
}

impl Stream {
    /// The server's end: receives more of the request, or sends more of the response.
    fn serve(&mut self, server: &Server, world: &World, count: usize) -> usize {
        if let Some(requesting) = &mut self.requesting {
            let bytes = self.up.take(count);
            requesting.push(&bytes).unwrap();
            if self.up.bytes.is_empty() {
                let request = self.requesting.take().unwrap().finish().unwrap();
                let answering = server.admit(&request).unwrap();
                self.down.bytes.extend(answering.head());
                self.answering = Some(answering);
            }
            return bytes.len();
        }
        // Bounds the bytes in flight, like flow control.
        if let Some(answering) = &mut self.answering
            && self.down.bytes.len() < 4096
        {
            let steps = answering.next(count as u64);
            self.down.is_ended = steps.is_empty();
            self.down.bytes.extend(world.spell(&steps));
        }
        0
    }

    /// The client's end.
    fn arrive(
        &mut self,
        arrivals: &mut [PendingResponse],
        out: &mut [Vec<Vec<u8>>],
        count: usize,
    ) -> usize {
        let bytes = self.down.take(count);
        let pieces = &mut out[self.of];
        let pushed = arrivals[self.of].push(&bytes, |piece| {
            assert_eq!(
                pieces[piece.range_index].len() as u64,
                piece.offset,
                "in order, and none twice"
            );
            pieces[piece.range_index].extend_from_slice(piece.bytes);
            Ok(())
        });
        pushed.unwrap();
        if self.down.is_ended && self.down.bytes.is_empty() && !self.is_done {
            arrivals[self.of].finish().unwrap();
            self.is_done = true;
        }
        bytes.len()
    }
}

/// Reads some ranges, each with its own request, over connections that end after the given numbers of bytes. Returns
/// the number of connections.
fn read(
    world: &World,
    wanted: &[Vec<Range<u64>>],
    lives: impl Fn(usize) -> usize,
    seed: u64,
) -> usize {
    let mut chance = Chance(seed);
    let mut arrivals: Vec<PendingResponse> = wanted.iter().map(|r| world.arrival(r)).collect();
    let mut out: Vec<Vec<Vec<u8>>> = wanted.iter().map(|r| vec![Vec::new(); r.len()]).collect();
    let mut known = None;
    for number in 0.. {
        assert!(number < 100_000, "it gets nowhere");
        let mut connection = Connection::new(known, world.root(), "", &Tokens::default());
        let mut left = lives(number);
        let mut is_asked = false;
        while left > 0 && !arrivals.iter().all(PendingResponse::is_whole) {
            if let (Some((id, index)), false) = (&connection.opened, is_asked) {
                assert_eq!(index.is_empty(), known == Some(*id), "the index comes once");
                for (at, bytes) in index {
                    let at = *at as usize;
                    assert_eq!(*bytes, world.file[at..at + bytes.len()]);
                }
                known = Some(*id);
                is_asked = true;
                for (at, arrival) in arrivals.iter_mut().enumerate() {
                    connection.ask(at, arrival, -(at as i32));
                }
            }
            left =
                left.saturating_sub(connection.step(world, &mut arrivals, &mut out, &mut chance));
        }
        if arrivals.iter().all(PendingResponse::is_whole) {
            for ((ranges, arrival), out) in wanted.iter().zip(&arrivals).zip(&out) {
                assert_eq!(arrival.bytes_received(), total(ranges).unwrap(), "no byte twice");
                for (range, out) in ranges.iter().zip(out) {
                    assert_eq!(*out, world.file[range.start as usize..range.end as usize]);
                }
            }
            return number + 1;
        }
    }
    unreachable!()
}

fn world() -> World {
    World::new(file(20_000), FileId([1; 32]), vec![0..100, 19_000..20_000])
}

#[test]
fn answers_are_whole_however_they_come() {
    let world = world();
    let batch: Vec<Range<u64>> = (0..300).map(|n| n * 60..n * 60 + n % 61).collect();
    let wanted = [vec![0..20_000], vec![5..5, 100..200, 7..9, 20_000..20_000], batch, vec![]];
    for seed in 1..200 {
        assert_eq!(read(&world, &wanted, |_| usize::MAX, seed), 1);
    }
    let world = world.proven();
    for seed in 1..50 {
        assert_eq!(read(&world, &wanted[..2], |_| usize::MAX, seed), 1);
    }
}

#[test]
fn a_connection_may_end_at_every_byte_and_none_is_sent_twice() {
    let world = World::new(file(900), FileId([2; 32]), vec![0..10, 800..900]);
    let wanted = [vec![10..400, 3..3, 500..510], vec![0..900]];
    // The first connection ends after `end` bytes, the next ones do not.
    for end in 0..2200 {
        let lives = |number| if number == 0 { end } else { usize::MAX };
        assert!(read(&world, &wanted, lives, end as u64 + 1) <= 2);
    }
    // All connections are short-lived.
    for seed in 1..100 {
        assert!(read(&world, &wanted, |n| 200 + n, seed) > 2);
    }
    // With proofs, an incomplete group is received again: it was not passed on before.
    let long = World::new(file(50_000), FileId([3; 32]), vec![0..10]).proven();
    let wanted = [vec![10..40_000, 3..3, 16_000..17_000]];
    for end in (0..140_000).step_by(1_999) {
        let lives = |number| if number == 0 { end } else { usize::MAX };
        assert!(read(&long, &wanted, lives, end as u64 + 1) <= 2);
    }
}

#[test]
fn clients_without_a_token_get_nothing() {
    let tokens = Tokens::new(vec!["right".into()]).unwrap();
    for (token, is_in) in [("", false), ("wrong", false), ("right", true)] {
        let mut connection = Connection::new(None, None, token, &tokens);
        let hello = connection.up.take(usize::MAX);
        match connection.server.control(&hello) {
            Ok(orders) => assert!(is_in && orders.len() == 2, "{token}"),
            Err(e) => assert_eq!((e.code(), is_in), ("net/token", false), "{token}"),
        }
    }
}

fn hello() -> (Server, Client) {
    let mut server = Server::new(Tokens::default(), &ServerLimits::default());
    let (client, hello) = Client::new("");
    assert_eq!(server.control(&hello).unwrap().len(), 1);
    (server, client)
}

#[test]
fn a_client_says_hello_first_and_once() {
    let (_, open) = Client::new("").0.open("x", None, None).unwrap();
    let mut server = Server::new(Tokens::default(), &ServerLimits::default());
    assert_eq!(server.control(&open).unwrap_err().code(), "net/frame");
    let (mut server, _) = hello();
    assert_eq!(server.control(&Client::new("").1).unwrap_err().code(), "net/frame");
    let mut server = Server::new(Tokens::default(), &ServerLimits::default());
    assert_eq!(server.control(&[1, 2, 0, 0, 0, 9, 9]).unwrap_err().code(), "net/version");
    assert_eq!(
        Client::new("").0.open(&"x".repeat(5000), None, None).unwrap_err().code(),
        "net/address"
    );
}

#[test]
fn files_are_bounded_and_have_one_number_each() {
    let mut limits = ServerLimits::default();
    limits.files = 2;
    let mut server = Server::new(Tokens::default(), &limits);
    let (mut client, hello) = Client::new("");
    server.control(&hello).unwrap();
    let mut open = || server.control(&client.open("x", None, None).unwrap().1).unwrap();
    assert!(matches!(open()[..], [ServerAction::Open { file: 0, .. }]));
    assert!(matches!(open()[..], [ServerAction::Open { file: 1, .. }]));
    let [ServerAction::Send(refused)] = &open()[..] else { panic!("a third is refused") };
    assert_eq!(refused[9], RefusalReason::Busy.number() as u8);
    let close = Client::close(0);
    assert_eq!(server.control(&close).unwrap(), [ServerAction::Close { file: 0 }]);
    // A file that was closed while it was being opened is not reported.
    assert!(server.opened(0, Ok((FileId([0; 32]), 1, vec![]))).is_none());
    let twice = [2, 6, 0, 0, 0, 1, 0, 0, 0, 0, b'x'];
    assert_eq!(server.control(&twice).unwrap_err().code(), "net/frame");
}

#[test]
fn requests_stay_inside_the_file() {
    let (mut server, mut client) = hello();
    let (file, open) = client.open("m", None, None).unwrap();
    server.control(&open).unwrap();
    let ask = |server: &Server, file, ranges: Vec<Range<u64>>| {
        let mut requesting = PendingRequest::default();
        requesting.push(&PendingResponse::new(ranges).request(file, 0).unwrap()).unwrap();
        server.admit(&requesting.finish().unwrap()).map(|_| ()).map_err(|r| r.reason)
    };
    assert_eq!(ask(&server, file, vec![0..1]), Err(RefusalReason::Request), "it is not open yet");
    server.opened(file, Ok((FileId([0; 32]), 100, vec![])));
    assert_eq!(ask(&server, file, vec![0..100]), Ok(()));
    assert_eq!(ask(&server, file, vec![0..101]), Err(RefusalReason::Request));
    assert_eq!(
        ask(&server, file, vec![0..60, 30..80]),
        Err(RefusalReason::Request),
        "more than it has"
    );
    assert_eq!(ask(&server, file, vec![0..1, u64::MAX - 1..u64::MAX]), Err(RefusalReason::Request));
    assert_eq!(ask(&server, file + 1, vec![0..1]), Err(RefusalReason::Request));
    let mut requesting = PendingRequest::default();
    let request = PendingResponse::new(vec![0..1]).request(file, 0).unwrap();
    requesting.push(&request).unwrap();
    assert_eq!(requesting.push(&[0]).unwrap_err().code(), "net/frame");
    let mut requesting = PendingRequest::default();
    requesting.push(&request[..9]).unwrap();
    assert_eq!(requesting.finish().unwrap_err().code(), "net/frame");
}

#[test]
fn unrequested_messages_of_a_server_are_refused() {
    let welcome = ServerFrame::Welcome { version: 1, requests: 1 }.encode();
    let id = FileId([0; 32]);
    let file_frame =
        |index: Vec<Range<u64>>| ServerFrame::File { file: 0, id, len: 1 << 40, index };
    let refused = ServerFrame::Refused {
        file: 7,
        refusal: Refusal { reason: RefusalReason::NoFile, text: String::new() },
    };
    for (what, frames) in [
        ("no welcome", vec![file_frame(vec![])]),
        ("two", vec![ServerFrame::Welcome { version: 1, requests: 1 }; 2]),
        ("a refusal for a file that was not requested", vec![refused]),
        ("the same file twice", vec![file_frame(vec![]), file_frame(vec![])]),
        ("an answer", vec![ServerFrame::Answer { len: 1 }]),
        ("falling", vec![file_frame(vec![5..6, 1..2])]),
        ("overlapping", vec![file_frame(vec![0..6, 5..7])]),
        ("empty", vec![file_frame(vec![5..5])]),
        ("outside", vec![file_frame(vec![0..(1 << 40) + 1])]),
        ("too long", vec![file_frame(vec![0..INDEX_MAX + 1])]),
    ] {
        let (mut client, _) = Client::new("");
        client.open("x", None, None).unwrap();
        let mut bytes = if what == "no welcome" { Vec::new() } else { welcome.clone() };
        if what == "two" {
            bytes.clear();
        }
        frames.iter().for_each(|frame| bytes.extend(frame.encode()));
        assert_eq!(client.control(&bytes).unwrap_err().code(), "net/frame", "{what}");
    }
    let (mut client, _) = Client::new("");
    let other = ServerFrame::Welcome { version: 2, requests: 1 }.encode();
    assert_eq!(client.control(&other).unwrap_err().code(), "net/version");
}

#[test]
fn answers_of_other_lengths_are_refused() {
    let fresh = || {
        let mut arrival = PendingResponse::new(vec![0..10]);
        arrival.request(0, 0).unwrap();
        arrival
    };
    let push = |arrival: &mut PendingResponse, bytes: &[u8]| arrival.push(bytes, |_| Ok(()));
    let head = |len| ServerFrame::Answer { len }.encode();
    for wrong in [0, 9, 11, u64::MAX] {
        assert_eq!(push(&mut fresh(), &head(wrong)).unwrap_err().code(), "net/answer");
    }
    let mut arrival = fresh();
    push(&mut arrival, &head(10)).unwrap();
    push(&mut arrival, &[0; 9]).unwrap();
    assert_eq!(arrival.finish().unwrap_err().code(), "net/answer", "one byte is missing");
    push(&mut arrival, &[0]).unwrap();
    arrival.finish().unwrap();
    assert_eq!(push(&mut arrival, &[0]).unwrap_err().code(), "net/answer", "one too many");
    let refusal = Refusal { reason: RefusalReason::Changed, text: "gone \u{1b}[31m".into() };
    let refused = ServerFrame::Refused { file: 0, refusal }.encode();
    let e = push(&mut fresh(), &refused).unwrap_err();
    assert_eq!(e.code(), "net/changed");
    assert!(!e.message().contains('\u{1b}'), "{e}");
    assert_eq!(push(&mut fresh(), &[0x81]).unwrap_err().code(), "net/frame");
    assert_eq!(fresh().finish().unwrap_err().code(), "net/answer", "nothing came");
}

/// Returns the whole response to one request, as it is sent, and the client's end of it.
fn proof(world: &World, range: Range<u64>) -> (Vec<u8>, PendingResponse) {
    let (mut server, _) = hello();
    let (file, open) = Client::new("").0.open("m", None, world.root()).unwrap();
    server.control(&open).unwrap();
    server.opened(file, Ok((world.id, world.file.len() as u64, vec![])));
    let mut arrival = world.arrival(&[range]);
    let mut requesting = PendingRequest::default();
    requesting.push(&arrival.request(file, 0).unwrap()).unwrap();
    let mut answering = server.admit(&requesting.finish().unwrap()).unwrap();
    let mut sent = answering.head();
    sent.extend(world.spell(&answering.next(u64::MAX)));
    (sent, arrival)
}

#[test]
fn a_proof_has_the_announced_length_and_proves_the_range() {
    for len in [1, 100, GROUP - 1, GROUP, GROUP + 1, 2 * GROUP, 3 * GROUP, 5 * GROUP + 7, 9 * GROUP]
    {
        let world = World::new(file(len as usize), FileId([1; 32]), vec![]).proven();
        // The root is the plain BLAKE3 hash of the file.
        let hash = blake3::hash(&world.file);
        assert_eq!(world.root(), Some(Root(*hash.as_bytes())), "{len}");
        for start in (0..len).step_by(5_003) {
            for end in [start + 1, start + 20_000, len] {
                let range = start..end.min(len);
                let (sent, mut arrival) = proof(&world, range.clone());
                assert_eq!(sent.len() as u64 - 13, proven_len(len, &range), "{range:?} of {len}");
                let mut came = Vec::new();
                arrival
                    .push(&sent, |piece| {
                        came.extend_from_slice(piece.bytes);
                        Ok(())
                    })
                    .unwrap();
                arrival.finish().unwrap();
                assert_eq!(came, world.file[range.start as usize..range.end as usize]);
            }
        }
    }
    assert_eq!(proven_len(100, &(5..5)), 0);
}

#[test]
fn any_wrong_bit_is_found_before_its_bytes_are_used() {
    let world = World::new(file(80_000), FileId([1; 32]), vec![]).proven();
    let range = 20_000..70_000;
    let (sent, _) = proof(&world, range.clone());
    for bit in (13 * 8..sent.len() * 8).step_by(977) {
        let mut wrong = sent.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let mut arrival = world.arrival(std::slice::from_ref(&range));
        arrival.request(0, 0).unwrap();
        let mut came = Vec::new();
        let e = arrival
            .push(&wrong, |piece| {
                came.extend_from_slice(piece.bytes);
                Ok(())
            })
            .unwrap_err();
        assert_eq!(e.code(), "net/proof", "bit {bit}");
        let named = e.range().unwrap();
        assert!(named.start < named.end && named.end <= 80_000, "{named:?}");
        // Bytes that were passed on before are correct, and outside the range in the error.
        assert_eq!(came.len() as u64, named.start.max(range.start) - range.start, "{named:?}");
        assert!(world.file[20_000..].starts_with(&came));
    }
}

#[test]
fn a_wrong_file_length_is_detected() {
    let world = World::new(file(40_000), FileId([1; 32]), vec![0..10]).proven();
    for len in [0, 1, 16_384, 32_768, 39_999, 40_001, 50_000, 65_536, 1 << 40] {
        let (mut client, _) = Client::new("");
        let (file, _) = client.open("m", None, world.root()).unwrap();
        // The proof of the end, as far as it can be forged.
        let (sent, _) = proof(&world, 39_999..40_000);
        let end = len.max(1) - 1..len;
        let index = if len == 0 { vec![] } else { vec![end] };
        let frames = [
            ServerFrame::Welcome { version: 1, requests: 1 },
            ServerFrame::File { file, id: world.id, len, index },
        ];
        let mut bytes: Vec<u8> = frames.iter().flat_map(ServerFrame::encode).collect();
        bytes.extend(&sent[13..]);
        bytes.extend([0; 100_000]);
        assert_eq!(client.control(&bytes).unwrap_err().code(), "net/proof", "{len}");
    }
    // The end must not be left out.
    let (mut client, _) = Client::new("");
    client.open("m", None, world.root()).unwrap();
    let frames = [
        ServerFrame::Welcome { version: 1, requests: 1 },
        ServerFrame::File { file: 0, id: world.id, len: 40_000, index: vec![0..10] },
    ];
    let bytes: Vec<u8> = frames.iter().flat_map(ServerFrame::encode).collect();
    assert_eq!(client.control(&bytes).unwrap_err().code(), "net/frame");
}
