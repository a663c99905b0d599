//! The runner's side of the protocol: offers a runner of this crate to the process that started this one.

use super::frame::{Frame, Kind, PREFIX_LEN, PROTOCOL, Prefix};
use super::program::TOML;
use super::shared::{Shared, Side};
use super::values;
use crate::platform::{self, Wire};
use crate::requirements::version;
use crate::rules::{FRAME, HANDSHAKE, ORDER, REMOTE_LOAD, START, io};
use crate::runner::{Load, Loaded, Runner};
use crate::runner_settings::RunnerSettings;
use holdall::carton::{Description, OptionValue, ShapeSpec, ValueSpec, ValueType};
use holdall::{Error, Result};
use semver::VersionReq;
use serde_json::{Map, Value as Json, json};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Serves a runner over the connection to the process that started this one, until the other side ends it.
///
/// # Errors
/// Returns `runner/start` if this process was not started as a runner, `runner/frame` if invalid frames arrive, `run/io`.
pub fn serve(runner: &dyn Runner) -> Result<()> {
    let Some(wire) = platform::connect().map_err(|e| io(e, "opening the connection"))? else {
        let e = START.broken("this process was not started as a runner");
        return Err(e.with_hint("runners are started by `holdall run`, not by hand"));
    };
    let mut served = Served { runner, wire, shared: None, model: None, temporary: Vec::new() };
    std::thread::spawn(platform::end_with_parent);
    let ended = served.answer_all();
    // If the other side closed the connection without a message, it cannot remove its temporary folders any more.
    if !matches!(ended, Ok(End::Bye)) {
        served.temporary.iter().for_each(|folder| holdall_io::temporary::remove(folder));
    }
    ended.map(drop)
}

/// How the other side ended the connection.
enum End {
    Bye,
    Closed,
}

struct Served<'a> {
    runner: &'a dyn Runner,
    wire: Wire,
    /// The folder of shared memory, and the minimum size of tensors that are put there.
    shared: Option<(Shared, usize)>,
    model: Option<Box<dyn Loaded>>,
    /// Folders to be removed when the other side is gone.
    temporary: Vec<PathBuf>,
}

impl Served<'_> {
    fn answer_all(&mut self) -> Result<End> {
        loop {
            let Some(frame) = self.receive()? else { return Ok(End::Closed) };
            let request = frame.request;
            let answered = match frame.kind {
                Kind::Bye => return Ok(End::Bye),
                Kind::Hello => self.hello(&frame),
                Kind::Load => self.load(&frame),
                Kind::Call => self.call(frame),
                other => Err(ORDER.broken(format!("unexpected frame of kind {}", other.number()))),
            };
            let sent = match answered {
                Ok((kind, header)) => self.send(Frame::new(kind, request, header)),
                Err(e) => {
                    let header = json!({ "what": e.code(), "message": e.to_string() });
                    self.send(Frame::new(Kind::Fail, request, header))
                }
            };
            if sent.is_err() {
                return Ok(End::Closed);
            }
        }
    }

    fn hello(&mut self, frame: &Frame) -> Result<(Kind, Json)> {
        let offered = frame.header.get("protocols").and_then(Json::as_array);
        if !offered.is_some_and(|all| all.iter().any(|n| n.as_u64() == Some(PROTOCOL))) {
            let e = format!("none of the offered protocol versions is {PROTOCOL}");
            return Err(HANDSHAKE.broken(e));
        }
        let folder = PathBuf::from(frame.text("shared"));
        let from = frame.header.get("shared_from").and_then(Json::as_u64);
        let from = from.map_or(values::SHARED_FROM, |n| usize::try_from(n).unwrap_or(usize::MAX));
        self.shared = Some((Shared::new(&folder, Side::Out), from));
        self.temporary.push(folder);
        let mut ready = json!({ "protocol": PROTOCOL, "runner": self.runner.name() });
        if let Some(known) = self.runner.compat_versions() {
            ready["compat_versions"] = json!(known);
        }
        Ok((Kind::Ready, ready))
    }

    fn load(&mut self, frame: &Frame) -> Result<(Kind, Json)> {
        let header = &frame.header;
        let temporary = header.get("temporary").and_then(Json::as_str);
        self.temporary.extend(temporary.map(PathBuf::from));
        let mut description = Description::default();
        description.runner.name = self.runner.name().to_owned();
        description.inputs = specs(header.get("inputs"))?;
        description.outputs = specs(header.get("outputs"))?;
        let requirement = match header.get("requirement").and_then(Json::as_str) {
            None => VersionReq::STAR,
            Some(text) => VersionReq::parse(text)
                .map_err(|e| REMOTE_LOAD.broken("the version requirement is invalid").because(e))?,
        };
        let no_options = Map::new();
        let given = header.get("options").and_then(Json::as_object).unwrap_or(&no_options);
        let options: Vec<(String, OptionValue)> =
            given.iter().filter_map(|(name, value)| Some((name.clone(), option(value)?))).collect();
        let name = self.runner.name();
        self.runner.satisfies(&requirement).map_err(|has| version(name, &requirement, &has))?;
        let taken = self.runner.options();
        let unknown = |name: &&String| taken.is_some_and(|taken| !taken.contains(&name.as_str()));
        let mut warnings: Vec<String> = options
            .iter()
            .map(|(name, _)| name)
            .filter(unknown)
            .map(|key| format!("the runner `{name}` has no option `{key}`, which is ignored"))
            .collect();
        // The caller enforces the time limit, and kills this process when it is exceeded.
        let settings = RunnerSettings { timeout: Duration::MAX, ..RunnerSettings::default() };
        let loaded = self.runner.load(&Load {
            description: &description,
            model: Path::new(frame.text("model")),
            temporary: None,
            options: &options,
            requirement: &requirement,
            settings: &settings,
        })?;
        warnings.extend_from_slice(loaded.warnings());
        self.model = Some(loaded);
        Ok((Kind::Loaded, json!({ "warnings": warnings })))
    }

    fn call(&mut self, frame: Frame) -> Result<(Kind, Json)> {
        let (Some(model), Some((shared, from))) = (&mut self.model, &mut self.shared) else {
            return Err(ORDER.broken("no model is loaded"));
        };
        let (wire, request) = (&mut self.wire, frame.request);
        let inputs =
            values::unpack(&frame.header, frame.data, &mut |file, len| shared.take(file, len))?;
        model.run(&inputs, &mut |outputs| {
            let (rows, data) = values::pack(&outputs, *from, &mut |bytes| shared.put(bytes))?;
            let frame = Frame::new(Kind::Item, request, json!({ "values": rows })).with_data(data);
            wire.write_all(&frame.encode()?).map_err(|e| io(e, "writing to the connection"))
        })?;
        Ok((Kind::Done, json!({})))
    }

    fn send(&mut self, frame: Frame) -> Result<()> {
        self.wire.write_all(&frame.encode()?).map_err(|e| io(e, "writing to the connection"))
    }

    /// Reads the next frame; `None` if the connection is closed.
    fn receive(&mut self) -> Result<Option<Frame>> {
        let mut prefix = [0; PREFIX_LEN];
        if !self.fill(&mut prefix)? {
            return Ok(None);
        }
        let prefix = Prefix::decode(&prefix)?;
        let (mut header, mut data) = (vec![0; prefix.header_len], vec![0; prefix.data_len]);
        match self.fill(&mut header)? && self.fill(&mut data)? {
            true => prefix.frame(&header, data).map(Some),
            false => Ok(None),
        }
    }

    /// Fills the buffer. Returns `false` if the connection is closed before.
    fn fill(&mut self, to: &mut [u8]) -> Result<bool> {
        match self.wire.read_exact(to) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => Ok(false),
            Err(e) => Err(io(e, "reading from the connection")),
        }
    }
}

fn option(value: &Json) -> Option<OptionValue> {
    Some(match value {
        Json::Bool(yes) => OptionValue::Boolean(*yes),
        Json::String(text) => OptionValue::String(text.clone()),
        Json::Number(n) => match n.as_i64() {
            Some(n) => OptionValue::Integer(n),
            None => OptionValue::Double(n.as_f64()?),
        },
        Json::Array(all) => OptionValue::Array(all.iter().filter_map(option).collect()),
        Json::Object(all) => match all.get(TOML).and_then(Json::as_str) {
            Some(text) if all.len() == 1 => OptionValue::parse(text).ok()?,
            _ => {
                let pair = |(name, value): (&String, &Json)| Some((name.clone(), option(value)?));
                OptionValue::Table(all.iter().filter_map(pair).collect())
            }
        },
        Json::Null => return None,
    })
}

/// Parses inputs or outputs of a `load` frame. The caller checks values against their shapes.
fn specs(json: Option<&Json>) -> Result<Vec<ValueSpec>> {
    let wrong = || -> Error { FRAME.broken("an input or output without a name or a dtype") };
    let one = |row: &Json| {
        let text = |key: &str| row.get(key).and_then(Json::as_str);
        let ty = text("dtype").and_then(ValueType::by_name).ok_or_else(wrong)?;
        let mut spec = ValueSpec::new(text("name").ok_or_else(wrong)?, ty, ShapeSpec::Any);
        spec.internal_name = text("internal_name").map(str::to_owned);
        Ok(spec)
    };
    json.and_then(Json::as_array).into_iter().flatten().map(one).collect()
}
