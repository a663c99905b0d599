//! Files over HTTP/2, in plain text and over TLS, and misbehaving clients.

mod catalog;

use bytes::Bytes;
use catalog::{Files, server, start};
use h2::client::SendRequest;
use holdall_net::http::{HttpOptions, HttpServer, PlainHttp};
use holdall_net::quic::Identity;
use holdall_net::{ServerLimits, Service, Tokens};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};

/// The status, the headers except those about the connection, and the body.
#[derive(Debug, PartialEq, Eq)]
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    fn new(
        status: u16,
        headers: impl Iterator<Item = (String, String)>,
        body: Vec<u8>,
    ) -> Response {
        let mut headers: Vec<_> = headers.filter(|(name, _)| name != "connection").collect();
        headers.sort();
        Response { status, headers, body }
    }
}

fn block_on<T>(doing: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), doing).await.unwrap() })
}

/// Makes a connection, driven by its own task.
async fn over<T>(io: T) -> SendRequest<Bytes>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = h2::client::handshake(io).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

async fn connect(at: SocketAddr) -> SendRequest<Bytes> {
    over(tokio::net::TcpStream::connect(at).await.unwrap()).await
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> http::Request<()> {
    let address = format!("http://localhost{path}");
    let mut request = http::Request::builder().method(method).uri(address);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

async fn ask(client: &SendRequest<Bytes>, asked: http::Request<()>) -> Result<Response, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (answer, _) = client.send_request(asked, true)?;
    let answer = answer.await?;
    let (head, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        bytes.extend_from_slice(&part);
    }
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
    };
    Ok(Response::new(head.status.as_u16(), head.headers.iter().map(text), bytes))
}

/// Sends the request over HTTP/1.1.
fn ask_first(at: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut stream = TcpStream::connect(at).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pair = |line: &str| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    };
    Response::new(status, lines.map(pair), all[end + 4..].to_vec())
}

/// Connects without an HTTP client, to send arbitrary frames.
fn raw(at: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// Returns the frame of `GET /large`: the static table and a literal path.
fn get_large(stream: u32) -> Vec<u8> {
    let block = [&[0x82, 0x86, 0x04, 6][..], b"/large"].concat();
    frame(1, 5, stream, &block)
}

#[test]
fn answers_are_those_of_http_1() {
    let mut options = HttpOptions::default();
    options.cors = Some("https://app.example".to_owned());
    let (server, _) = server(ServerLimits::default(), options);
    let at = server.address();
    let etag = ask_first(at, "GET", "/digits", &[]);
    let etag = etag.headers.iter().find(|(name, _)| name == "etag").unwrap().1.clone();
    block_on(async {
        let client = connect(at).await;
        for (method, path, headers, status) in [
            ("GET", "/digits", vec![], 200),
            ("HEAD", "/digits", vec![], 200),
            ("OPTIONS", "/digits", vec![], 204),
            ("POST", "/digits", vec![], 405),
            ("GET", "/", vec![], 200),
            ("GET", "/a%20b", vec![], 200),
            ("GET", "/empty", vec![], 200),
            ("GET", "/broken", vec![], 500),
            ("GET", "/none", vec![], 404),
            ("GET", "/%ff", vec![], 404),
            ("GET", "/../digits", vec![], 404),
            ("GET", "/none/", vec![], 404),
            ("GET", "/digits?x", vec![("range", "bytes=2-4")], 206),
            ("GET", "/digits", vec![("range", "bytes=-3")], 206),
            ("GET", "/digits", vec![("range", "bytes=10-")], 416),
            ("GET", "/digits", vec![("range", "bytes=0-1,3-4")], 200),
            ("GET", "/digits", vec![("range", "bytes=0-1"), ("if-range", &etag)], 206),
            ("GET", "/digits", vec![("range", "bytes=0-1"), ("if-range", "\"x\"")], 200),
            ("GET", "/digits", vec![("if-none-match", &etag)], 304),
            ("GET", "/digits", vec![("if-match", "\"x\"")], 412),
            ("GET", "/digits", vec![("content-length", "5")], 400),
        ] {
            let second = ask(&client, request(method, path, &headers)).await;
            let first = ask_first(at, method, path, &headers);
            assert_eq!(first.status, status, "{method} {path} {headers:?}");
            match second {
                Ok(second) => assert_eq!(second, first, "{method} {path} {headers:?}"),
                // h2 refuses a response whose headers announce a body that does not follow.
                Err(e) => assert!(status == 400 && e.is_reset(), "{method} {path}: {e}"),
            }
        }
        let mut other = request("GET", "/digits", &[]);
        *other.uri_mut() = "http://evil.example/digits".parse().unwrap();
        assert_eq!(ask(&client, other).await.unwrap().status, 421);
    });
}

#[test]
fn many_ranges_come_at_once() {
    let (server, seen) = server(ServerLimits::default(), HttpOptions::default());
    block_on(async {
        let client = connect(server.address()).await;
        // After the first response the client knows its limit of concurrent requests. The server would refuse more.
        ask(&client, request("GET", "/digits", &[])).await.unwrap();
        let large = Files::large();
        let ask = |at: usize| {
            let client = client.clone();
            tokio::spawn(async move {
                let (from, to) = (at * 1000, at * 5000 + 300_000);
                let range = format!("bytes={from}-{}", to - 1);
                let response = ask(&client, request("GET", "/large", &[("range", &range)])).await;
                (from..to, response.unwrap())
            })
        };
        let asked: Vec<_> = (0..150).map(ask).collect();
        for answer in asked {
            let (range, response) = answer.await.unwrap();
            assert!(response.status == 206 && response.body == large[range]);
        }
    });
    assert!(seen.most_at_once() > 1, "answers come one after the other");
    assert_eq!(seen.ended("large whole"), 150);
}

#[test]
fn a_token_is_required() {
    let tokens = Tokens::new(vec!["right".into()]).unwrap();
    let (files, seen) = Files::served();
    let service = Service::new(files).with_tokens(tokens).with_log(seen.log());
    let server = start(service, HttpOptions::default());
    block_on(async {
        let client = connect(server.address()).await;
        for (headers, status) in [
            (vec![], 401),
            (vec![("authorization", "Bearer wrong")], 401),
            (vec![("authorization", "Bearer right")], 200),
        ] {
            let response = ask(&client, request("GET", "/digits", &headers)).await.unwrap();
            assert_eq!(response.status, status, "{headers:?}");
        }
    });
    assert_eq!((seen.ended("digits net/token"), seen.ended("digits whole")), (2, 1));
}

#[test]
fn both_versions_are_spoken_over_tls() {
    let mut options = HttpOptions::default();
    let identity = Arc::new(Identity::generate().unwrap());
    options.identity = Some(Arc::clone(&identity));
    let (server, _) = server(ServerLimits::default(), options);
    let at = server.address();
    let shown = identity.certificates().next().unwrap().to_vec();
    block_on(async {
        let stream = catalog::secure(at, &[b"h2", b"http/1.1"], &shown).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let client = over(stream).await;
        let mut asked = request("GET", "/large", &[]);
        *asked.uri_mut() = "https://localhost/large".parse().unwrap();
        assert!(ask(&client, asked).await.unwrap().body == Files::large());
        for protocols in [&[&b"http/1.1"[..]][..], &[]] {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let mut stream = catalog::secure(at, protocols, &shown).await;
            let asked = b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            stream.write_all(asked).await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            assert!(all.starts_with(b"HTTP/1.1 200 OK\r\n") && all.ends_with(&Files::large()));
        }
    });
    // Plain text works on the same port.
    assert_eq!(ask_first(at, "GET", "/digits", &[]).body, b"0123456789");
}

#[test]
fn plain_text_is_refused_if_tls_is_required() {
    let mut options = HttpOptions::default();
    let identity = Arc::new(Identity::generate().unwrap());
    options.identity = Some(Arc::clone(&identity));
    options.plain = PlainHttp::Refuse;
    let (server, seen) = server(ServerLimits::default(), options);
    let at = server.address();
    let response = ask_first(at, "GET", "/digits", &[("authorization", "Bearer secret")]);
    assert_eq!(response.status, 400);
    assert!(String::from_utf8(response.body).unwrap().contains("https://"));
    // An empty SETTINGS frame and GOAWAY with `INADEQUATE_SECURITY`.
    let settings = frame(4, 0, 0, &[]);
    let end = frame(7, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0x0c]);
    assert_eq!(rest(raw(at)), [settings, end].concat());
    block_on(async {
        let e = ask(&connect(at).await, request("GET", "/digits", &[])).await.unwrap_err();
        assert_eq!(e.reason(), Some(h2::Reason::INADEQUATE_SECURITY));
        let shown = identity.certificates().next().unwrap().to_vec();
        let client = over(catalog::secure(at, &[b"h2"], &shown).await).await;
        let mut asked = request("GET", "/digits", &[]);
        *asked.uri_mut() = "https://localhost/digits".parse().unwrap();
        assert_eq!(ask(&client, asked).await.unwrap().body, b"0123456789");
    });
    assert_eq!(seen.ended(" net/plain-text"), 3);
}

/// Reads everything the server sends, until the connection is closed.
fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset counts as closed, too.
    let _ = stream.read_to_end(&mut all);
    all
}

fn is_up(server: &HttpServer) {
    assert_eq!(ask_first(server.address(), "GET", "/digits", &[]).status, 200);
}

fn short_timeout() -> ServerLimits {
    let mut limits = ServerLimits::default();
    limits.idle_timeout = Duration::from_millis(400);
    limits
}

#[test]
fn requests_that_are_taken_back_at_once_end_the_connection() {
    let (server, seen) = server(ServerLimits::default(), HttpOptions::default());
    let mut stream = raw(server.address());
    let mut frames = frame(4, 0, 0, &[]);
    for at in 0..10_000 {
        let id = 2 * at + 1;
        frames.extend(get_large(id));
        frames.extend(frame(3, 0, id, &8u32.to_be_bytes()));
    }
    // The server may close the connection before everything was sent.
    let _ = stream.write_all(&frames);
    let _ = rest(stream);
    is_up(&server);
    assert!(seen.all().len() < 500, "{} requests were answered", seen.all().len());
    assert!(seen.read() < 4 << 20, "{} bytes were read", seen.read());
}

#[test]
fn invalid_http_2_ends_the_connection() {
    let (server, _) = server(short_timeout(), HttpOptions::default());
    let noise: Vec<u8> =
        (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let large = [frame(4, 0, 0, &[]), frame(1, 1, 1, &[0; 100])].concat();
    let endless: Vec<u8> = (0..1000).flat_map(|_| frame(9, 0, 1, &[0x40; 1000])).collect();
    for bad in [
        noise,
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        // A frame longer than allowed.
        [&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1][..], &[0; 100]].concat(),
        // A head that never ends.
        [large, endless].concat(),
        // A head on stream 0; a window update of zero.
        [frame(4, 0, 0, &[]), frame(1, 5, 0, &[0x82])].concat(),
        [frame(4, 0, 0, &[]), frame(8, 0, 0, &[0; 4])].concat(),
        Vec::new(),
        frame(4, 0, 0, &[]),
    ] {
        let began = Instant::now();
        let mut stream = raw(server.address());
        let _ = stream.write_all(&bad);
        let _ = rest(stream);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", &bad[..bad.len().min(20)]);
    }
    // A part of the preface.
    for half in [&b"P"[..], b"PR", b"PRI", b"PRI * HTTP/2.0\r\n"] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(half).unwrap();
        let _ = rest(stream);
    }
    is_up(&server);
}

#[test]
fn incomplete_and_invalid_tls_handshakes_end() {
    let mut options = HttpOptions::default();
    options.identity = Some(Arc::new(Identity::generate().unwrap()));
    let (server, _) = server(short_timeout(), options);
    for hello in [&[22][..], &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], &[22; 3000]] {
        let began = Instant::now();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(hello).unwrap();
        let _ = rest(stream);
        assert!(began.elapsed() < Duration::from_secs(10), "{hello:?}");
    }
    is_up(&server);
}

#[test]
fn no_more_is_read_than_a_client_has_room_for() {
    let mut limits = short_timeout();
    limits.idle_timeout = Duration::from_secs(2);
    let (server, seen) = server(limits, HttpOptions::default());
    // At most one flow-control window, which is never enlarged.
    let mut stream = raw(server.address());
    let all: Vec<u8> = (0..40).flat_map(|at| get_large(2 * at + 1)).collect();
    stream.write_all(&[frame(4, 0, 0, &[]), all.clone()].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!((1..=65_535).contains(&seen.read()), "{}", seen.read());
    drop(stream);
    // A client with unlimited windows that reads nothing: at most the content of the socket buffers, and 64 KiB per
    // response.
    let windows = [0, 4, 0x7f, 0xff, 0xff, 0xff];
    let mut stream = raw(server.address());
    let open = [frame(4, 0, 0, &windows), frame(8, 0, 0, &0x7fff_0000u32.to_be_bytes())].concat();
    let before = seen.read();
    stream.write_all(&[open, all].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let held = seen.read() - before;
    assert!(held < 16 << 20, "{held} bytes");
    // The server disconnects it.
    let until = Instant::now() + Duration::from_secs(20);
    while seen.ended("large left") < 40 {
        assert!(Instant::now() < until, "{:?}", seen.all());
        std::thread::sleep(Duration::from_millis(20));
    }
    is_up(&server);
}

#[test]
fn running_responses_are_sent_to_the_end() {
    let mut limits = ServerLimits::default();
    limits.rate = std::num::NonZeroU64::new(2_000_000);
    let (server, seen) = server(limits, HttpOptions::default());
    let at = server.address();
    let mut server = Some(server);
    block_on(async {
        let client = connect(at).await;
        let mut ready = client.clone().ready().await.unwrap();
        let (answer, _) = ready.send_request(request("GET", "/large", &[]), true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        let mut bytes = body.data().await.unwrap().unwrap().to_vec();
        let server = server.take().unwrap();
        let stopping = std::thread::spawn(move || server.stop(Duration::from_secs(20)));
        tokio::time::sleep(Duration::from_millis(400)).await;
        // No further requests are accepted.
        let late = ask(&client, request("GET", "/digits", &[])).await;
        assert!(late.is_err());
        body.flow_control().release_capacity(bytes.len()).unwrap();
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            body.flow_control().release_capacity(part.len()).unwrap();
            bytes.extend_from_slice(&part);
        }
        assert!(bytes == Files::large());
        drop((client, ready, body));
        stopping.join().unwrap();
    });
    assert_eq!(seen.ended("large whole"), 1);
    assert!(TcpStream::connect_timeout(&at, Duration::from_millis(200)).is_err());
}

#[test]
fn a_read_error_resets_only_its_stream() {
    let (server, seen) = server(ServerLimits::default(), HttpOptions::default());
    block_on(async {
        let client = connect(server.address()).await;
        let e = ask(&client, request("GET", "/torn", &[])).await.unwrap_err();
        assert_eq!(e.reason(), Some(h2::Reason::INTERNAL_ERROR));
        assert_eq!(ask(&client, request("GET", "/digits", &[])).await.unwrap().status, 200);
    });
    assert_eq!(seen.ended("torn net/changed"), 1);
}

#[test]
fn a_client_that_leaves_is_logged() {
    let (server, seen) = server(ServerLimits::default(), HttpOptions::default());
    let mut stream = raw(server.address());
    stream.write_all(&[frame(4, 0, 0, &[]), get_large(1)].concat()).unwrap();
    stream.read_exact(&mut [0; 1000]).unwrap();
    drop(stream);
    let until = Instant::now() + Duration::from_secs(20);
    while seen.ended("large left") < 1 {
        assert!(Instant::now() < until, "{:?}", seen.all());
        std::thread::sleep(Duration::from_millis(20));
    }
}
