//! Running code that `holdall schema code --lang wgsl` generates on a device.

use holdall::schema::{Lang, Schema, SchemaLimits, code};
use serde_json::Value;
use wgpu::BufferUsages;

/// Returns the `words` words that a shader writes into `out`. `main` has the records in binding 0 and `out` in binding
/// 1.
pub(crate) fn run(
    device: &wgpu::Device,
    queue: &wgpu::Queue,
    shader: &str,
    records: wgpu::BindingResource<'_>,
    words: u64,
) -> Vec<u32> {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(shader.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    let buffer = |usage| {
        device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: words * 4,
            usage,
            mapped_at_creation: false,
        })
    };
    let out = buffer(BufferUsages::STORAGE | BufferUsages::COPY_SRC);
    let read = buffer(BufferUsages::MAP_READ | BufferUsages::COPY_DST);
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: records },
            wgpu::BindGroupEntry { binding: 1, resource: out.as_entire_binding() },
        ],
    });
    let mut encoder = device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(1, 1, 1);
    drop(pass);
    encoder.copy_buffer_to_buffer(&out, 0, &read, 0, words * 4);
    queue.submit([encoder.finish()]);
    read.slice(..).map_async(wgpu::MapMode::Read, |mapped| mapped.unwrap());
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    let mapped = read.slice(..).get_mapped_range().unwrap();
    mapped.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
}

pub(crate) fn wgsl(kind: &Value, name: &str) -> (Schema, String) {
    let schema = Schema::compile_record(kind, &SchemaLimits::default()).unwrap();
    let text = code(&schema, schema.record().unwrap(), name, Lang::Wgsl).unwrap();
    (schema, text)
}
