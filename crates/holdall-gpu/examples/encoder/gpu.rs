//! The encoder on the device: one submission per operation.

use crate::Sizes;
use holdall::{Result, Role};
use holdall_gpu::Tensor;

pub(crate) struct Encoder<'a> {
    device: &'a wgpu::Device,
    queue: &'a wgpu::Queue,
    sizes: &'a Sizes,
    module: wgpu::ShaderModule,
    ids: wgpu::Buffer,
    tokens: u32,
}

/// One dispatch: a shader, its inputs, and the sizes of its output.
struct Step<'s> {
    shader: &'s str,
    reads: Vec<wgpu::BindingResource<'s>>,
    inner: u64,
    outer: u64,
    groups: [u32; 2],
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(
        device: &'a wgpu::Device,
        queue: &'a wgpu::Queue,
        sizes: &'a Sizes,
        ids: &[u32],
    ) -> Encoder<'a> {
        let module = device.create_shader_module(wgpu::include_wgsl!("encoder.wgsl"));
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let buffer = room(device, bytes.len() as u64);
        queue.write_buffer(&buffer, 0, &bytes);
        Encoder { device, queue, sizes, module, ids: buffer, tokens: ids.len() as u32 }
    }

    /// Returns the hidden state of each token after the last layer. `find` returns tensors, and may wait for them.
    /// `on_layer` is called with each layer when the device has finished it.
    pub(crate) fn encode(
        &self,
        find: impl Fn(&str) -> Result<Tensor>,
        on_layer: impl Fn(usize),
    ) -> Result<Vec<f32>> {
        let (hidden, inner) = (self.sizes.hidden, self.sizes.inner);
        let rows = [self.tokens, 1];
        let norm = |x: &wgpu::Buffer, y: &wgpu::Buffer, name: &str| -> Result<wgpu::Buffer> {
            let (gain, offset) = (find(&format!("{name}.weight"))?, find(&format!("{name}.bias"))?);
            Ok(self.step(Step {
                shader: "norm",
                reads: vec![
                    x.as_entire_binding(),
                    y.as_entire_binding(),
                    gain.binding(&Role::Data)?,
                    offset.binding(&Role::Data)?,
                ],
                inner: hidden,
                outer: hidden,
                groups: rows,
            }))
        };
        let linear = |shader: &str, x: &wgpu::Buffer, name: &str, from: u64, to: u64| {
            let (matrix, offset) =
                (find(&format!("{name}.weight"))?, find(&format!("{name}.bias"))?);
            let groups = (u64::from(self.tokens) * to).div_ceil(64) as u32;
            Ok::<_, holdall::Error>(self.step(Step {
                shader,
                reads: vec![
                    x.as_entire_binding(),
                    matrix.binding(&Role::Data)?,
                    offset.binding(&Role::Data)?,
                ],
                inner: from,
                outer: to,
                groups: [groups, 1],
            }))
        };
        let words = find("embeddings.word_embeddings.weight")?;
        let places = find("embeddings.position_embeddings.weight")?;
        let kinds = find("embeddings.token_type_embeddings.weight")?;
        let sum = self.step(Step {
            shader: "embed",
            reads: vec![
                words.binding(&Role::Data)?,
                places.binding(&Role::Data)?,
                kinds.binding(&Role::Data)?,
            ],
            inner: hidden,
            outer: hidden,
            groups: [(u64::from(self.tokens) * hidden).div_ceil(64) as u32, 1],
        });
        let nothing = room(self.device, u64::from(self.tokens) * hidden * 4);
        let mut x = norm(&sum, &nothing, "embeddings.LayerNorm")?;
        for n in 0..self.sizes.layers {
            let at = |name: &str| format!("encoder.layer.{n}.{name}");
            let query = linear("linear", &x, &at("attention.self.query"), hidden, hidden)?;
            let key = linear("linear", &x, &at("attention.self.key"), hidden, hidden)?;
            let value = linear("linear", &x, &at("attention.self.value"), hidden, hidden)?;
            let seen = self.step(Step {
                shader: "attend",
                reads: [&query, &key, &value].map(wgpu::Buffer::as_entire_binding).into(),
                inner: hidden,
                outer: hidden,
                groups: [self.tokens, self.sizes.heads],
            });
            let y = linear("linear", &seen, &at("attention.output.dense"), hidden, hidden)?;
            let y = norm(&y, &x, &at("attention.output.LayerNorm"))?;
            let wide = linear("linear_gelu", &y, &at("intermediate.dense"), hidden, inner)?;
            let z = linear("linear", &wide, &at("output.dense"), inner, hidden)?;
            x = norm(&z, &y, &at("output.LayerNorm"))?;
            // So that the reported time is that of the device.
            let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
            on_layer(n);
        }
        Ok(self.read(&x))
    }

    fn step(&self, step: Step<'_>) -> wgpu::Buffer {
        let device = self.device;
        let out = room(device, u64::from(self.tokens) * step.outer * 4);
        let numbers = [self.tokens, step.inner as u32, step.outer as u32, self.sizes.heads];
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        let sizes = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 16,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.queue.write_buffer(&sizes, 0, &bytes);
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(step.shader),
            layout: None,
            module: &self.module,
            entry_point: Some(step.shader),
            compilation_options: Default::default(),
            cache: None,
        });
        let own = [sizes.as_entire_binding(), out.as_entire_binding()];
        let mut resources: Vec<(u32, wgpu::BindingResource<'_>)> =
            (0..).zip(own.into_iter().chain(step.reads)).collect();
        if step.shader == "embed" {
            resources.push((6, self.ids.as_entire_binding()));
        }
        let entries: Vec<_> = resources
            .into_iter()
            .map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource })
            .collect();
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(step.shader),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(step.groups[0], step.groups[1], 1);
        }
        self.queue.submit([encoder.finish()]);
        out
    }

    fn read(&self, buffer: &wgpu::Buffer) -> Vec<f32> {
        let own = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: buffer.size(),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &own, 0, buffer.size());
        self.queue.submit([encoder.finish()]);
        own.map_async(wgpu::MapMode::Read, .., |_| ());
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
        let bytes = own.get_mapped_range(..).expect("it was mapped");
        bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
    }
}

fn room(device: &wgpu::Device, size: u64) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}
