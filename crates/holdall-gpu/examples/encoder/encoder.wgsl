// The operations of a BERT encoder, written for readability: one invocation per number, or per row.

struct Sizes {
    tokens: u32,
    // The numbers in an input row, and in an output row.
    inner: u32,
    outer: u32,
    heads: u32,
}

@group(0) @binding(0) var<uniform> sizes: Sizes;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> a: array<f32>;
@group(0) @binding(4) var<storage, read> b: array<f32>;
@group(0) @binding(5) var<storage, read> c: array<f32>;
@group(0) @binding(6) var<storage, read> ids: array<u32>;

// The sum of the embeddings of a word (x), its position (a) and its sentence (b).
@compute @workgroup_size(64)
fn embed(@builtin(global_invocation_id) id: vec3<u32>) {
    let n = id.x;
    if n >= sizes.tokens * sizes.outer { return; }
    let token = n / sizes.outer;
    let h = n % sizes.outer;
    out[n] = x[ids[token] * sizes.outer + h] + a[token * sizes.outer + h] + b[h];
}

// The sum of x and a, normalised by rows, with a gain (b) and an offset (c).
@compute @workgroup_size(1)
fn norm(@builtin(global_invocation_id) id: vec3<u32>) {
    let start = id.x * sizes.outer;
    var mean = 0.0;
    for (var h = 0u; h < sizes.outer; h++) {
        let sum = x[start + h] + a[start + h];
        out[start + h] = sum;
        mean += sum;
    }
    mean /= f32(sizes.outer);
    var square = 0.0;
    for (var h = 0u; h < sizes.outer; h++) {
        let d = out[start + h] - mean;
        square += d * d;
    }
    let scale = inverseSqrt(square / f32(sizes.outer) + 1e-12);
    for (var h = 0u; h < sizes.outer; h++) {
        out[start + h] = (out[start + h] - mean) * scale * b[h] + c[h];
    }
}

fn product(n: u32) -> f32 {
    let token = n / sizes.outer;
    let o = n % sizes.outer;
    var sum = b[o];
    for (var k = 0u; k < sizes.inner; k++) {
        sum += x[token * sizes.inner + k] * a[o * sizes.inner + k];
    }
    return sum;
}

// The product with a matrix (a), plus an offset (b).
@compute @workgroup_size(64)
fn linear(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= sizes.tokens * sizes.outer { return; }
    out[id.x] = product(id.x);
}

// The same as linear, followed by GELU.
@compute @workgroup_size(64)
fn linear_gelu(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= sizes.tokens * sizes.outer { return; }
    let y = product(id.x);
    out[id.x] = 0.5 * y * (1.0 + erf(y * 0.70710678));
}

// Abramowitz and Stegun 7.1.26: within 1.5e-7.
fn erf(y: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.3275911 * abs(y));
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(y) * (1.0 - p * exp(-y * y));
}

// Attention with queries (x), keys (a) and values (b): one invocation per token and head.
@compute @workgroup_size(1)
fn attend(@builtin(global_invocation_id) id: vec3<u32>) {
    let token = id.x;
    let size = sizes.outer / sizes.heads;
    let first = id.y * size;
    let scale = inverseSqrt(f32(size));
    var most = -1e30;
    for (var t = 0u; t < sizes.tokens; t++) {
        most = max(most, score(token, t, first, size) * scale);
    }
    var all = 0.0;
    for (var h = 0u; h < size; h++) {
        out[token * sizes.outer + first + h] = 0.0;
    }
    for (var t = 0u; t < sizes.tokens; t++) {
        let weight = exp(score(token, t, first, size) * scale - most);
        all += weight;
        for (var h = 0u; h < size; h++) {
            out[token * sizes.outer + first + h] += weight * b[t * sizes.outer + first + h];
        }
    }
    for (var h = 0u; h < size; h++) {
        out[token * sizes.outer + first + h] /= all;
    }
}

fn score(token: u32, other: u32, first: u32, size: u32) -> f32 {
    var sum = 0.0;
    for (var h = 0u; h < size; h++) {
        sum += x[token * sizes.outer + first + h] * a[other * sizes.outer + first + h];
    }
    return sum;
}
