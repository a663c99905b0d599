//! Conversion of tensors to dense floats on the device: other float types, blocks and quantized groups.

mod groups;

use crate::device::guarded;
use crate::model::{Component, Page, Tensor};
use crate::placement::{Placement, Sizes, Spot, allocate};
use crate::rules::{CONVERSION, PAGES};
use crate::shader;
use holdall::layout::{grid, into_f32};
use holdall::{BlockType, DType, Layout, LogicalType, Result, Role};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Invocations per workgroup.
const GROUP: u32 = 64;

/// The float type of the converted elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Float {
    /// 32 bits.
    F32,
    /// 16-bit floats, two per 32-bit word, rounded to the nearest, ties to even.
    F16,
}

impl Float {
    fn dtype(self) -> DType {
        match self {
            Float::F32 => DType::F32,
            Float::F16 => DType::F16,
        }
    }
}

/// Converts tensors to dense floats with compute shaders. Each shader is compiled once.
pub struct Converter {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipelines: Mutex<HashMap<String, wgpu::ComputePipeline>>,
}

impl Converter {
    /// Creates a converter for tensors on this device.
    pub fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Converter {
        let (device, queue) = (device.clone(), queue.clone());
        Converter { device, queue, pipelines: Mutex::default() }
    }

    /// Converts the elements of a tensor to `to`, in row-major order and in new buffers. The work is submitted to the
    /// queue; work that is submitted later sees the converted elements.
    ///
    /// The elements are bit for bit those of [`holdall::Tensor::to_dense`], with two exceptions that depend on the
    /// device: a product below 2⁻¹²⁶ may be 0, and the elements of a block whose scale is not finite may differ. Rows
    /// whose `g_idx` is not the number of a group, which `to_dense` refuses, become NaN.
    ///
    /// # Errors
    /// Returns `gpu/conversion` for elements or layouts without a shader: integers of 32 bits and more, `f64`, complex
    /// numbers, sparse tensors; `gpu/pages` if the tensor has more pages than the device can bind at once; and
    /// `gpu/memory` or `gpu/refused` if the device returns an error.
    pub fn dense(&self, tensor: &Tensor, to: Float) -> Result<Component> {
        self.convert(tensor, to).map_err(|e| e.in_tensor(tensor.name()))
    }

    fn convert(&self, tensor: &Tensor, to: Float) -> Result<Component> {
        let data = match tensor.info().layout() {
            Layout::QuantizedGroup => tensor.component(&Role::PackedWeight)?,
            _ => tensor.component(&Role::Data)?,
        };
        let read = reading(tensor, data)?;
        let mut parts = vec![("data", data)];
        for (name, role) in &read.parts {
            parts.push((name, tensor.component(role)?));
        }
        let pages: Vec<&Page> = parts.iter().flat_map(|(_, c)| &c.pages).collect();
        let count: u64 = tensor.shape().iter().product();
        let limits = self.device.limits();
        let most = u64::from(limits.max_storage_buffers_per_shader_stage);
        if pages.len() as u64 + 2 > most {
            let message = format!(
                "the tensor has {} pages and needs two more bindings, the device has {most}",
                pages.len()
            );
            return Err(PAGES.broken(message));
        }
        // The shader counts bytes and elements in 32 bits.
        if data.len.max(count) > u64::from(u32::MAX) {
            return Err(CONVERSION.broken(format!(
                "{count} elements in {} bytes are more than 32 bits can count",
                data.len
            )));
        }
        let source = source(&parts, &read, to);
        let table = match read.table.len() as u64 * 4 {
            0 => None,
            len => Some(self.room(len, Sizes::from_limits(&limits)?)?),
        };
        let mut read_from = pages;
        if let Some(table) = &table {
            let bytes: Vec<u8> = read.table.iter().flat_map(|word| word.to_le_bytes()).collect();
            guarded(&self.device, format_args!("a table"), || {
                self.queue.write_buffer(&table[0].buffer, 0, &bytes);
            })?;
            read_from.extend(table);
        }
        let out = self.room(count * to.dtype().width(), Sizes::from_limits(&limits)?)?;
        guarded(&self.device, format_args!("a shader"), || {
            let pipeline = self.pipeline(source);
            let mut first = 0;
            for page in &out {
                let count = page.len / to.dtype().width();
                self.dispatch(&pipeline, &read_from, page, first..first + count);
                first += count;
            }
        })?;
        let len = out.iter().map(|page| page.len).sum();
        Ok(Component { role: Role::Data, dtype: to.dtype(), logical_type: None, len, pages: out })
    }

    /// Creates buffers for `len` bytes.
    fn room(&self, len: u64, sizes: Sizes) -> Result<Vec<Page>> {
        let allocation = allocate(&[len], Placement::Each, sizes);
        let page = |(size, spot): (&u64, &Spot)| {
            let buffer = guarded(&self.device, format_args!("a buffer of {size} bytes"), || {
                self.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("holdall: dense"),
                    size: *size,
                    usage: wgpu::BufferUsages::STORAGE
                        | wgpu::BufferUsages::COPY_SRC
                        | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                })
            })?;
            Ok(Page { buffer, offset: 0, len: spot.len })
        };
        allocation.buffers.iter().zip(allocation.spots.iter().flatten()).map(page).collect()
    }

    fn pipeline(&self, source: String) -> wgpu::ComputePipeline {
        let mut all = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = all.get(&source) {
            return pipeline.clone();
        }
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("holdall: dense"),
            source: wgpu::ShaderSource::Wgsl(source.as_str().into()),
        });
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("holdall: dense"),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        });
        all.insert(source, pipeline.clone());
        pipeline
    }

    /// Computes one page of the result: the elements in the given range.
    fn dispatch(
        &self,
        pipeline: &wgpu::ComputePipeline,
        read_from: &[&Page],
        out: &Page,
        elements: Range<u64>,
    ) {
        let words = out.len.div_ceil(4);
        // Workgroups are dispatched in two dimensions, because one dimension has at most 65,535.
        let groups = words.div_ceil(u64::from(GROUP)) as u32;
        let across = groups.min(32_768);
        let down = groups.div_ceil(across.max(1));
        let count = elements.end - elements.start;
        let numbers = [elements.start as u32, count as u32, across * GROUP, 0];
        let span = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("holdall: span"),
            size: 16,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.queue.write_buffer(&span, 0, &bytes);
        let own = [span.as_entire_binding(), out.binding()].into_iter();
        let resources = own.chain(read_from.iter().map(|page| page.binding()));
        let entries: Vec<_> = (0..)
            .zip(resources)
            .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("holdall: dense"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(across, down, 1);
        }
        self.queue.submit([encoder.finish()]);
    }
}

/// How an element is read: the body of a WGSL function that returns the bits of element `i` as `f32`, and what the body
/// needs.
struct Reading {
    body: String,
    /// Words of a lookup table, bound as `table`.
    table: Vec<u32>,
    /// Functions that the body calls.
    code: String,
    /// Further components that the body reads, and their names in the shader.
    parts: Vec<(&'static str, Role)>,
}

impl Reading {
    fn new(body: impl Into<String>) -> Reading {
        Reading { body: body.into(), table: Vec::new(), code: String::new(), parts: Vec::new() }
    }
}

fn reading(tensor: &Tensor, data: &Component) -> Result<Reading> {
    match tensor.info().layout() {
        Layout::Dense => dense_reading(data),
        Layout::Blocks(block_type) => Ok(block_reading(block_type)),
        Layout::QuantizedGroup => groups::group_reading(tensor),
        other => Err(CONVERSION.broken(format!("no shader for the layout `{}`", other.as_str()))),
    }
}

fn dense_reading(data: &Component) -> Result<Reading> {
    if let Some(logical) = &data.logical_type {
        return small_float_reading(logical);
    }
    plain_expression("data", data).map(Reading::new)
}

/// Returns the body of a function that reads element `i` of a component without a logical type.
fn plain_expression(name: &str, c: &Component) -> Result<String> {
    let body = match c.dtype {
        _ if c.logical_type.is_some() => None,
        DType::F32 => Some("return data_word(i);"),
        DType::F16 => Some("return bits_of_half(data_u16(2u * i));"),
        DType::Bf16 => Some(
            "let x = data_u16(2u * i) << 16u;
    return x | select(0u, 0x400000u, (x & 0x7fffffffu) > 0x7f800000u);",
        ),
        DType::I16 => Some("return bitcast<u32>(f32((i32(data_u16(2u * i)) ^ 32768) - 32768));"),
        DType::U16 => Some("return bitcast<u32>(f32(data_u16(2u * i)));"),
        DType::I8 => Some("return bitcast<u32>(f32(data_i8(i)));"),
        DType::U8 | DType::Bool => Some("return bitcast<u32>(f32(data_u8(i)));"),
        // Zero points have only a few bits, so they are exact as floats.
        DType::I32 | DType::U32 if name == "zeros" => {
            Some("return bitcast<u32>(f32(bitcast<i32>(data_word(i))));")
        }
        _ => None,
    };
    let body = body.ok_or_else(|| {
        let e = CONVERSION.broken(format!("no shader for elements of {}", c.dtype));
        e.in_component(&c.role)
    })?;
    Ok(body.replace("data_", &format!("{name}_")))
}

/// Returns the reading of small floats, which are looked up in a table of all values that the CPU's code computed.
fn small_float_reading(logical: &LogicalType) -> Result<Reading> {
    let no = || CONVERSION.broken(format!("no shader for elements of {logical}"));
    let (codes, body) = match logical {
        LogicalType::F4E2M1 => (16, "return table[(data_u8(i / 2u) >> (4u * (i % 2u))) & 15u];"),
        LogicalType::F8E4M3Fn
        | LogicalType::F8E5M2
        | LogicalType::F8E4M3FnUz
        | LogicalType::F8E5M2FnUz
        | LogicalType::F8E8M0 => (256, "return table[data_u8(i)];"),
        _ => return Err(no()),
    };
    // A byte with two codes is decoded as both of its halves.
    let bytes: Vec<u8> = match codes {
        16 => (0..8).map(|i| (2 * i) | ((2 * i + 1) << 4)).collect(),
        _ => (0..=255).collect(),
    };
    let mut values = vec![0f32; codes];
    into_f32(DType::U8, Some(logical), &bytes, &mut values)?;
    let table = values.iter().map(|value| value.to_bits()).collect();
    Ok(Reading { table, ..Reading::new(body) })
}

/// Returns the reading of a block type. Each block type has a WGSL function of its name.
fn block_reading(block_type: &BlockType) -> Reading {
    let (name, elements, bytes) = (block_type.as_str(), block_type.elements, block_type.bytes);
    let body = format!("return bitcast<u32>({name}(i / {elements}u * {bytes}u, i % {elements}u));");
    let mut code = include_str!("blocks.wgsl").to_owned();
    let mut table = Vec::new();
    if let Some(grid) = grid(block_type) {
        code.push_str(include_str!("grids.wgsl"));
        let (words, _) = grid.as_chunks::<4>();
        table.extend(words.iter().map(|word| u32::from_le_bytes(word.map(i8::cast_unsigned))));
    }
    Reading { code, table, ..Reading::new(body) }
}

fn source(parts: &[(&str, &Component)], read: &Reading, to: Float) -> String {
    let mut out = String::from(
        "struct Span { first: u32, count: u32, across: u32, unused: u32 }
@group(0) @binding(0) var<uniform> span: Span;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
",
    );
    let mut binding = 2;
    for (name, component) in parts {
        out.push_str(&shader::paged(name, 0, binding, component));
        binding += component.pages.len() as u32;
    }
    out.push_str(include_str!("halves.wgsl"));
    if !read.table.is_empty() {
        let _ =
            writeln!(out, "@group(0) @binding({binding}) var<storage, read> table: array<u32>;");
    }
    out.push_str(&read.code);
    let _ = write!(out, "fn element(i: u32) -> u32 {{\n    {}\n}}\n", read.body);
    let per_word = 4 / to.dtype().width();
    let store = match to {
        Float::F32 => "result[at] = element(span.first + at);",
        Float::F16 => {
            "let i = span.first + 2u * at;
    var both = half_of_bits(element(i));
    if 2u * at + 1u < span.count {
        both |= half_of_bits(element(i + 1u)) << 16u;
    }
    result[at] = both;"
        }
    };
    let _ = write!(
        out,
        "@compute @workgroup_size({GROUP})
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
    let at = id.y * span.across + id.x;
    if {per_word}u * at >= span.count {{
        return;
    }}
    {store}
}}
"
    );
    out
}
