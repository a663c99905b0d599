//! The process of a runner: starting it, exchanging frames, and ending it. Every wait has a time limit.

use super::environment;
use super::frame::{Frame, Kind, PREFIX_LEN, PROTOCOL, Prefix};
use super::log::{Last, pass_lines};
use super::shared::{Shared, Side};
use super::values;
use crate::platform::{self, Offer, Wire};
use crate::rules::{CLOSED, DIED, FAILED, FRAME, HANDSHAKE, ORDER, START, TIMEOUT, io};
use crate::runner::{NamedValues, OutputSink};
use crate::runner_settings::{Cancelled, RunnerSettings, Span};
use holdall::{Error, Result, Rule};
use holdall_io::temporary::Temporary;
use serde_json::{Value as Json, json};
use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::PoisonError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often to check a process that is being waited for.
const LOOK: Duration = Duration::from_millis(100);
/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// A runner's process.
pub(crate) struct Process {
    child: Child,
    wire: Wire,
    /// The folder for tensors that are too large for a frame.
    folder: Temporary,
    shared: Shared,
    /// Tensors with more bytes than this are passed through shared memory.
    shared_from: usize,
    request: u32,
    /// Whether the process was found to have ended while something was awaited from it.
    seen_ended: bool,
    /// Whether the process was reaped, so that the system may reuse its id.
    reaped: bool,
    timeout: Duration,
    cancelled: Option<Cancelled>,
    last_lines: Last,
    /// Threads that forward the process' output.
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts a program whose standard input is the connection, in the environment that the settings choose, and
    /// exchanges the first frames. Returns the runner's answer, `ready` or `fail`.
    pub(crate) fn start(command: Command, settings: &RunnerSettings) -> Result<(Process, Frame)> {
        let mut process = Process::spawn(command, settings)?;
        let ready = process.hello(&[PROTOCOL], values::SHARED_FROM)?;
        if ready.kind == Kind::Fail {
            return Ok((process, ready));
        }
        if ready.header.get("protocol").and_then(Json::as_u64) != Some(PROTOCOL) {
            let found = ready.header.get("protocol").unwrap_or(&Json::Null);
            return Err(HANDSHAKE.broken(format!(
                "the runner chose version {found} of the protocol, {PROTOCOL} was offered"
            )));
        }
        Ok((process, ready))
    }

    /// Starts a program without sending it anything.
    pub(crate) fn spawn(mut command: Command, settings: &RunnerSettings) -> Result<Process> {
        let log = settings.log.as_ref();
        let mut folders = tempfile::Builder::new();
        folders.prefix("holdall-run-");
        let in_memory = platform::memory_folder().and_then(|at| folders.tempdir_in(at).ok());
        let folder = in_memory
            .map_or_else(|| folders.tempdir(), Ok)
            .map(Temporary::new)
            .map_err(|e| io(e, "creating a folder for shared memory"))?;
        let environment =
            environment::process_environment(std::env::vars_os(), &settings.environment)?;
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).env_clear().envs(environment);
        let offer = Offer::new(&mut command).map_err(|e| io(e, "creating a connection"))?;
        let spawned = command.spawn();
        // Dropping the command closes our copy of the runner's end of the connection.
        let program = command.get_program().to_string_lossy().into_owned();
        drop(command);
        let mut child =
            spawned.map_err(|e| START.broken(format!("starting `{program}`")).because(e))?;
        let last_lines = Last::default();
        let out = child.stdout.take().and_then(|out| pass_lines(out, false, log.cloned(), None));
        let keep = Some(last_lines.clone());
        let err = child.stderr.take().and_then(|err| pass_lines(err, true, log.cloned(), keep));
        let shared = Shared::new(folder.path(), Side::In);
        let wire = match offer.accept(&mut child, Instant::now() + settings.timeout) {
            Ok(wire) => wire,
            Err(e) => {
                platform::kill(&mut child);
                let _ = child.wait();
                return Err(START.broken(format!("`{program}` did not connect")).because(e));
            }
        };
        Ok(Process {
            child,
            wire,
            folder,
            shared,
            shared_from: values::SHARED_FROM,
            request: 0,
            seen_ended: false,
            reaped: false,
            timeout: settings.timeout,
            cancelled: settings.cancelled.clone(),
            last_lines,
            readers: out.into_iter().chain(err).collect(),
        })
    }

    /// Offers versions of the protocol, and returns the answer, whatever it is.
    pub(crate) fn hello(&mut self, protocols: &[u64], shared_from: usize) -> Result<Frame> {
        self.shared_from = shared_from;
        let hello = json!({
            "protocols": protocols,
            "shared": self.folder.path(),
            "shared_from": shared_from,
        });
        self.ask(Kind::Hello, hello, Vec::new(), Kind::Ready)
    }

    /// Sends bytes that need not be a frame, and waits for the process to end. Returns whether it did.
    pub(crate) fn ends_after(&mut self, bytes: &[u8]) -> bool {
        let _ = self.wire.set_write_timeout(Some(LOOK));
        // Fails if the process has ended already.
        let _ = self.wire.write_all(bytes);
        self.ends_within(self.timeout)
    }

    /// Closes the connection without a message, and waits for the process to end. Returns whether it did.
    pub(crate) fn ends_when_closed(&mut self) -> bool {
        let _ = self.wire.shutdown(std::net::Shutdown::Both);
        self.ends_within(self.timeout)
    }

    fn ends_within(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.has_ended()
    }

    /// Returns `true` if there are tensors in shared memory that were not removed.
    pub(crate) fn has_shared_files(&self) -> bool {
        self.shared.has_files()
    }

    /// Sends a request and waits for its only answer. [`Kind::Fail`] is returned to the caller, which knows how to
    /// report it.
    pub(crate) fn ask(
        &mut self,
        kind: Kind,
        header: Json,
        data: Vec<u8>,
        answer: Kind,
    ) -> Result<Frame> {
        self.send(kind, header, data)?;
        let frame = self.receive()?;
        match frame.kind {
            kind if kind == answer || kind == Kind::Fail => Ok(frame),
            other => Err(self.out_of_order(other)),
        }
    }

    /// Runs the model once. Returns the frame of a failure.
    pub(crate) fn call(
        &mut self,
        inputs: &NamedValues,
        span: Span,
        each: OutputSink<'_>,
    ) -> Result<Option<Frame>> {
        let whole = Instant::now() + self.timeout;
        let shared = &mut self.shared;
        let (rows, data) = values::pack(inputs, self.shared_from, &mut |bytes| shared.put(bytes))?;
        self.send(Kind::Call, json!({ "values": rows }), data)?;
        loop {
            let mut frame = match span {
                Span::Answer => self.receive()?,
                Span::Whole => self.receive_until(whole)?,
            };
            match frame.kind {
                Kind::Item => {
                    let data = std::mem::take(&mut frame.data);
                    let unpacked = values::unpack(&frame.header, data, &mut |file, len| {
                        self.shared.take(file, len)
                    });
                    let outputs = unpacked.map_err(|e| self.tell(e))?;
                    if let Err(e) = each(outputs) {
                        self.drain();
                        return Err(e);
                    }
                }
                Kind::Done => return Ok(None),
                Kind::Fail => return Ok(Some(frame)),
                other => return Err(self.out_of_order(other)),
            }
        }
    }

    /// Waits for a call to end whose further outputs are not needed. If it does not, kills the process.
    fn drain(&mut self) {
        let until = Instant::now() + GRACE.min(self.timeout);
        loop {
            match self.receive_until(until).map(|frame| frame.kind) {
                Ok(Kind::Item) if Instant::now() < until => {}
                Ok(Kind::Done | Kind::Fail) => return,
                _ => break,
            }
        }
        self.kill();
    }

    fn out_of_order(&mut self, kind: Kind) -> Error {
        let e = ORDER.broken(format!("the runner sent a frame of kind {}", kind.number()));
        self.tell(e)
    }

    /// Adds the last lines that the process printed to an error.
    fn tell(&self, e: Error) -> Error {
        let lines = self.last_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<&str> = lines.iter().map(String::as_str).collect();
        match last.is_empty() {
            true => e,
            false => e.with_hint(format!("its last output: {}", last.join(" / "))),
        }
    }

    fn send(&mut self, kind: Kind, header: Json, data: Vec<u8>) -> Result<()> {
        if self.reaped {
            return Err(CLOSED.broken("the runner has ended"));
        }
        self.request = self.request.wrapping_add(1);
        let bytes = Frame::new(kind, self.request, header).with_data(data).encode()?;
        let deadline = Instant::now() + self.timeout;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let wait = self.wire.set_write_timeout(Some(LOOK));
            match wait.and_then(|()| self.wire.write(rest)) {
                Ok(0) => return Err(self.died()),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(e) if is_wait(&e) => self.look(deadline, "read what it was sent")?,
                Err(e) if is_closed(&e) => return Err(self.died()),
                Err(e) => return Err(io(e, "writing to the runner")),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Frame> {
        self.receive_until(Instant::now() + self.timeout)
    }

    fn receive_until(&mut self, deadline: Instant) -> Result<Frame> {
        // A process that never pauses is not checked elsewhere.
        self.check_wanted()?;
        let mut prefix = [0; PREFIX_LEN];
        self.fill(&mut prefix, deadline)?;
        let prefix = Prefix::decode(&prefix).map_err(|e| self.tell(e))?;
        let header = self.bytes(prefix.header_len, deadline)?;
        let data = self.bytes(prefix.data_len, deadline)?;
        let frame = prefix.frame(&header, data).map_err(|e| self.tell(e))?;
        if frame.request != self.request {
            let (found, wanted) = (frame.request, self.request);
            let e = ORDER.broken(format!("the runner answered request {found}, expected {wanted}"));
            return Err(self.tell(e));
        }
        Ok(frame)
    }

    /// Reads `len` bytes. Memory is allocated as they arrive, because the length is not trusted.
    fn bytes(&mut self, len: usize, deadline: Instant) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.len() < len {
            let start = out.len();
            out.resize(len.min(start + (1 << 20)), 0);
            self.fill(&mut out[start..], deadline)?;
        }
        Ok(out)
    }

    fn fill(&mut self, mut to: &mut [u8], deadline: Instant) -> Result<()> {
        while !to.is_empty() {
            let wait = self.wire.set_read_timeout(Some(LOOK));
            match wait.and_then(|()| self.wire.read(to)) {
                Ok(0) => return Err(self.died()),
                // A process that never pauses is not checked for lateness elsewhere.
                Ok(_) if Instant::now() >= deadline => return Err(self.late("answer")),
                Ok(n) => to = to.get_mut(n..).unwrap_or_default(),
                Err(e) if is_wait(&e) => self.look(deadline, "answer")?,
                Err(e) if is_closed(&e) => return Err(self.died()),
                Err(e) => return Err(io(e, "reading from the runner")),
            }
        }
        Ok(())
    }

    /// Called when nothing arrived: checks whether the process has ended, was cancelled, or is late.
    fn look(&mut self, deadline: Instant, to: &str) -> Result<()> {
        if self.has_ended() {
            // Bytes that it sent before may still be unread, so read once more.
            if self.seen_ended {
                return Err(self.died());
            }
            self.seen_ended = true;
        }
        self.check_wanted()?;
        if Instant::now() < deadline {
            return Ok(());
        }
        Err(self.late(to))
    }

    fn check_wanted(&mut self) -> Result<()> {
        let wanted = RunnerSettings::check_wanted(self.cancelled.as_ref());
        if wanted.is_err() {
            self.kill();
        }
        wanted
    }

    fn late(&mut self, to: &str) -> Error {
        let seconds = self.timeout.as_secs_f64();
        self.kill();
        TIMEOUT.broken(format!("the runner did not {to} within {seconds} s, and was killed"))
    }

    fn died(&mut self) -> Error {
        let until = Instant::now() + GRACE;
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let reason = match self.kill() {
            Some(status) => describe_exit(status),
            None => "the runner closed the connection".to_owned(),
        };
        self.hear_out();
        self.tell(DIED.broken(reason))
    }

    /// Returns `true` if the process has ended. It is not reaped, so that the id of its process group stays valid.
    fn has_ended(&mut self) -> bool {
        self.reaped || platform::has_ended(&mut self.child)
    }

    /// Kills the process, and those that it has started where the system can, and reaps the process. Returns its exit status if it had ended by itself.
    fn kill(&mut self) -> Option<ExitStatus> {
        if self.reaped {
            return None;
        }
        let had_ended = self.has_ended();
        platform::kill(&mut self.child);
        let status = self.child.wait().ok();
        self.reaped = true;
        status.filter(|_| had_ended)
    }

    /// Waits until the last output of an ended process has been forwarded; not for other processes that share its
    /// pipes.
    fn hear_out(&self) {
        let until = Instant::now() + GRACE;
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.request = self.request.wrapping_add(1);
        if let Ok(bye) = Frame::new(Kind::Bye, self.request, json!({})).encode()
            && !self.has_ended()
        {
            // If it does not read, it is killed below.
            let _ = self.wire.set_write_timeout(Some(LOOK));
            let _ = self.wire.write_all(&bye);
            self.ends_within(GRACE);
        }
        self.kill();
        self.hear_out();
    }
}

/// Returns the error for a failure that the runner reported, under the rule that matches its `what`.
pub(crate) fn failed(frame: &Frame, rule_of: fn(&str) -> Option<&'static Rule>) -> Error {
    let rule = rule_of(frame.text("what")).unwrap_or(&FAILED);
    match frame.text("message") {
        "" => FRAME.broken("a failure without a message"),
        text => rule.broken(text.to_owned()),
    }
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), platform::signal(status)) {
        (Some(code), _) => format!("the runner ended with status {code}"),
        (None, Some(signal)) => format!("the runner was ended by signal {signal}"),
        (None, None) => "the runner ended".to_owned(),
    }
}

fn is_wait(e: &std::io::Error) -> bool {
    use std::io::ErrorKind as E;
    matches!(e.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}

fn is_closed(e: &std::io::Error) -> bool {
    use std::io::ErrorKind as E;
    matches!(e.kind(), E::BrokenPipe | E::ConnectionReset | E::NotConnected)
}
