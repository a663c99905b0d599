//! `holdall view`: which files its server provides, and to which clients.

use crate::command::{self, command, holdall};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

/// A server that is stopped at the end of the test.
struct Served {
    child: Child,
    /// The host and port: `127.0.0.1:PORT`.
    host: String,
    /// The path of the page, without the fragment after `#`.
    page: String,
    fragment: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates a folder with a placeholder for the page.
fn page(folder: &Path) -> String {
    let page = folder.join("page");
    std::fs::create_dir(&page).unwrap();
    for name in ["open.html", "viewer.css", "viewer.js", "core.js"] {
        std::fs::write(page.join(name), format!("this is {name}")).unwrap();
    }
    page.to_str().unwrap().to_owned()
}

fn serve(args: &[&str]) -> Served {
    served(command([&["view", "--no-open"], args].concat()))
}

fn served(mut command: std::process::Command) -> Served {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (address, fragment) = line.trim_end().split_once('#').unwrap();
    let (host, page) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    Served { child, host: host.to_owned(), page: format!("/{page}"), fragment: fragment.to_owned() }
}

impl Served {
    /// Returns the head and the body of a response.
    fn ask(&self, method: &str, path: &str, fields: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let host = if fields.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.host)
        };
        // A server that closes the connection early sends no response.
        let _ =
            write!(stream, "{method} {path} HTTP/1.1\r\n{host}{fields}Connection: close\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        match answer.windows(4).position(|w| w == b"\r\n\r\n") {
            Some(end) => {
                (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
            }
            None => (String::new(), answer),
        }
    }

    fn status(&self, method: &str, path: &str, fields: &str) -> String {
        let (head, _) = self.ask(method, path, fields);
        head.split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

#[test]
fn only_the_page_and_the_file_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let page = page(folder.path());
    let file = folder.path().join("a file.bin");
    let bytes: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    let served = serve(&["--page", &page, file.to_str().unwrap()]);
    assert!(served.host.starts_with("127.0.0.1:"), "{}", served.host);
    let (head, body) = served.ask("GET", &served.page, "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("connect-src 'self'") && head.contains("nosniff"), "{head}");
    assert_eq!(body, b"this is open.html");
    for header in [
        "Content-Type: text/html; charset=utf-8\r\n",
        "Cache-Control: no-store\r\n",
        "Cross-Origin-Resource-Policy: same-origin\r\n",
        "Referrer-Policy: no-referrer",
    ] {
        assert!(head.contains(header), "{head}");
    }
    for (name, kind) in [("viewer.css", "text/css"), ("core.js", "text/javascript")] {
        let (head, body) = served.ask("GET", &served.page.replace("open.html", name), "");
        assert!(head.contains(&format!("Content-Type: {kind}; charset=utf-8\r\n")), "{head}");
        assert_eq!(body, format!("this is {name}").as_bytes());
    }
    let token = served.page.strip_suffix("/open.html").unwrap().to_owned();
    assert_eq!(token.len(), 33);
    assert_eq!(served.fragment, format!("url={token}/0/a%2520file.bin"));
    let path = format!("{token}/0/a%20file.bin");

    let (head, body) = served.ask("GET", &path, "");
    assert!(head.contains("Content-Length: 200000\r\n"), "{head}");
    assert_eq!(body, bytes);
    let tag = head.lines().find_map(|l| l.strip_prefix("ETag: ")).unwrap();
    let (head, body) = served.ask("GET", &path, "Range: bytes=10-19\r\n");
    assert!(head.starts_with("HTTP/1.1 206") && head.contains("Content-Range: bytes 10-19/200000"));
    assert_eq!(body, &bytes[10..20]);
    let (head, body) = served.ask("GET", &path, "Range: bytes=-5\r\n");
    assert!(head.contains("Content-Range: bytes 199995-199999/200000"), "{head}");
    assert_eq!(body, &bytes[199_995..]);
    let last = served.ask("GET", &path, "Range: bytes=199990-999999999999\r\n");
    assert_eq!(last.1, &bytes[199_990..]);
    assert_eq!(served.status("GET", &path, "Range: bytes=200000-\r\n"), "416");
    // An invalid or foreign range is treated as a request for the whole file.
    for odd in ["bytes=5-2", "bytes=-", "bytes=a-b", "bytes=0-1,4-5", "lines=1-2", "bytes=+1-2"] {
        assert_eq!(served.status("HEAD", &path, &format!("Range: {odd}\r\n")), "200", "{odd}");
    }
    let same = format!("Range: bytes=0-0\r\nIf-Range: {tag}\r\n");
    assert_eq!(served.status("HEAD", &path, &same), "206");
    assert_eq!(served.status("HEAD", &path, "Range: bytes=0-0\r\nIf-Range: \"x\"\r\n"), "200");
    let (head, body) = served.ask("HEAD", &path, "");
    assert!(head.contains("Content-Length: 200000") && body.is_empty(), "{head}");

    let other = if token.ends_with('0') { '1' } else { '0' };
    for path in [
        "/".to_owned(),
        "/open.html".to_owned(),
        format!("{token}/"),
        format!("{token}/1/secret"),
        format!("{token}/secret"),
        format!("{token}/../secret"),
        format!("{token}/%2e%2e/secret"),
        format!("{}{other}/open.html", &token[..token.len() - 1]),
        format!("{token}0/open.html"),
    ] {
        assert_eq!(served.status("GET", &path, ""), "404", "{path}");
    }
    // A file that has been removed is refused, and so is one that replaced it under a validator that was issued for the
    // original.
    std::fs::write(&file, b"short").unwrap();
    let (head, body) = served.ask("GET", &path, &same);
    assert!(head.starts_with("HTTP/1.1 200") && body == b"short", "{head}");
    assert_eq!(served.status("GET", &path, &format!("If-Match: {tag}\r\n")), "412");
    std::fs::remove_file(&file).unwrap();
    assert_ne!(served.status("GET", &path, ""), "200");
    // Another host name that resolves to this computer.
    assert_eq!(served.status("GET", &served.page, "Host: rebound.example\r\n"), "421");
    // Other methods are refused.
    assert_eq!(served.status("POST", &served.page, ""), "405");
    assert_eq!(served.status("GET", &format!("/{}", "a".repeat(20_000)), ""), "400");
    assert_eq!(served.status("GET", &served.page, ""), "200");
}

#[test]
fn a_sharded_model_is_served_with_its_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let page = page(folder.path());
    let model = folder.path().join("llama 3");
    let own = std::fs::read(command::accept("safetensors/st_fp8.safetensors")).unwrap();
    std::fs::create_dir_all(model.join("parts")).unwrap();
    let name = "parts/a b.safetensors";
    std::fs::write(model.join(name), &own).unwrap();
    std::fs::write(model.join("secret"), "secret").unwrap();
    let tensor = holdall(["inspect", "--json", model.join(name).to_str().unwrap()]).json();
    let tensor = tensor["tensors"][0]["name"].as_str().unwrap();
    let index = format!("{{\"weight_map\": {{\"{tensor}\": \"{name}\"}}}}");
    std::fs::write(model.join("model.safetensors.index.json"), &index).unwrap();
    let by_index = model.join("model.safetensors.index.json");
    for path in [&model, &by_index] {
        let served = serve(&["--page", &page, path.to_str().unwrap()]);
        let token = served.page.strip_suffix("/open.html").unwrap();
        assert_eq!(served.fragment, format!("url={token}/0/model.safetensors.index.json"));
        let ask = |name: &str| served.ask("GET", &format!("{token}/0/{name}"), "");
        assert_eq!(ask("model.safetensors.index.json").1, index.as_bytes());
        assert_eq!(ask("parts/a%20b.safetensors").1, own);
        for name in ["secret", "", "parts", "parts/", "parts/../secret", "other/a%20b.safetensors"]
        {
            assert!(ask(name).0.starts_with("HTTP/1.1 404"), "{name}");
        }
    }
    // The page shows the fault; the server provides only the file itself.
    std::fs::write(model.join("model.safetensors.index.json"), "{}").unwrap();
    let served = serve(&["--page", &page, model.to_str().unwrap()]);
    let token = served.page.strip_suffix("/open.html").unwrap();
    let status = |name: &str| served.status("GET", &format!("{token}/0/{name}"), "");
    assert_eq!(status("model.safetensors.index.json"), "200");
    assert_eq!(status("parts/a%20b.safetensors"), "404");
}

#[test]
fn each_server_has_a_token_of_its_own_and_two_files_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let page = page(folder.path());
    let file = command::accept("safetensors/st_fp8.safetensors");
    let first = serve(&["--page", &page, &file, &file]);
    let second = serve(&["--page", &page, &file]);
    assert_ne!(first.page, second.page);
    let token = first.page.strip_suffix("/open.html").unwrap();
    let name = "st_fp8.safetensors";
    assert_eq!(first.fragment, format!("url={token}/0/{name}&with={token}/1/{name}"));
    assert_eq!(first.status("GET", &second.page, ""), "404");
}

#[test]
fn files_that_cannot_be_viewed_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = command::accept("safetensors/st_fp8.safetensors");
    let empty = folder.path().to_str().unwrap();
    let error = holdall(["view", "--json", "--no-open", "--page", empty, &file]).error();
    assert_eq!((&error["code"], &error["source"]), (&"view/no-page".into(), &empty.into()));
    // A folder with a part of the page only.
    std::fs::write(folder.path().join("open.html"), "the page").unwrap();
    let error = holdall(["view", "--json", "--no-open", "--page", empty, &file]).error();
    assert_eq!(error["code"], "view/no-page");
    assert!(error["message"].as_str().unwrap().contains("viewer.css"), "{error}");
    let page = page(folder.path());
    let view = |what: &str| holdall(["view", "--json", "--no-open", "--page", &page, what]).error();
    assert_eq!(view("no-such-file")["code"], "io/failed");
    assert_eq!(view(empty)["code"], "usage/arguments");
}

/// The page that was built into the command is served from wherever the command is; a command without it says so.
#[test]
fn a_command_alone_in_a_folder_has_its_viewer() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("holdall");
    std::fs::copy(env!("CARGO_BIN_EXE_holdall"), &alone).unwrap();
    let file = command::accept("safetensors/st_fp8.safetensors");
    let mut view = std::process::Command::new(&alone);
    view.args(["view", "--no-open", &file]).current_dir(folder.path());
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer");
    if !built.join("core.js.gz").exists() {
        let output = view.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains("view/no-page"), "{text}");
        assert!(text.contains("cargo xtask viewer"), "{text}");
        return;
    }
    let served = served(view);
    for name in ["open.html", "viewer.css", "viewer.js", "core.js"] {
        let packed = std::fs::File::open(built.join(format!("{name}.gz"))).unwrap();
        let mut expected = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut expected).unwrap();
        let (head, body) = served.ask("GET", &served.page.replace("open.html", name), "");
        assert!(head.starts_with("HTTP/1.1 200") && body == expected, "{name}: {head}");
    }
    let (head, body) = served.ask("GET", &served.page, "Range: bytes=0-14\r\n");
    assert!(head.starts_with("HTTP/1.1 206") && body == b"<!doctype html>", "{head}");
}
