// Decodes ggml's blocks whose elements are looked up in a grid. `table` holds the grid, four numbers per word. See
// blocks.wgsl.

// Returns number `k` of a grid's line that has `len` numbers.
fn grid(line: u32, len: u32, k: u32) -> f32 {
    let at = line * len + k;
    return f32(extractBits(bitcast<i32>(table[at / 4u]), 8u * (at % 4u), 8u));
}

fn u32_at(byte: u32) -> u32 {
    return data_u16(byte) | (data_u16(byte + 2u) << 16u);
}

// Returns seven signs, and an eighth that makes the number of minus signs even.
fn signs_of(bits: u32) -> u32 {
    let seven = bits & 127u;
    return seven | ((countOneBits(seven) & 1u) << 7u);
}

fn signed(x: f32, signs: u32, k: u32) -> f32 {
    return select(x, -x, ((signs >> k) & 1u) == 1u);
}

fn iq2_xxs(b: u32, j: u32) -> f32 {
    let at = b + 2u + 8u * (j / 32u);
    let l = j / 8u % 4u;
    let rest = u32_at(at + 4u);
    let d = half_at(b) * (0.5 + f32(rest >> 28u)) * 0.25;
    return signed(d * grid(data_u8(at + l), 8u, j % 8u), signs_of(rest >> (7u * l)), j % 8u);
}

// Returns the scale of 16 elements: four bits of the byte for 32 elements.
fn of_16(d: f32, byte: u32, j: u32) -> f32 {
    let scale = (data_u8(byte + j / 32u) >> (4u * (j / 16u % 2u))) & 15u;
    return d * (0.5 + f32(scale)) * 0.25;
}

fn iq2_xs(b: u32, j: u32) -> f32 {
    let q = data_u16(b + 2u + 2u * (j / 8u));
    let d = of_16(half_at(b), b + 66u, j);
    return signed(d * grid(q & 511u, 8u, j % 8u), signs_of(q >> 9u), j % 8u);
}

fn iq2_s(b: u32, j: u32) -> f32 {
    let i = j / 8u;
    let high = (data_u8(b + 66u + i / 4u) >> (2u * (i % 4u))) & 3u;
    let d = of_16(half_at(b), b + 74u, j);
    let line = data_u8(b + 2u + i) | (high << 8u);
    return signed(d * grid(line, 8u, j % 8u), data_u8(b + 34u + i), j % 8u);
}

fn iq3_xxs(b: u32, j: u32) -> f32 {
    let i = j / 32u;
    let l = j / 4u % 8u;
    let rest = u32_at(b + 66u + 4u * i);
    let d = half_at(b) * (0.5 + f32(rest >> 28u)) * 0.5;
    let signs = signs_of(rest >> (7u * (l / 2u))) >> (4u * (l % 2u));
    return signed(d * grid(data_u8(b + 2u + 8u * i + l), 4u, j % 4u), signs, j % 4u);
}

fn iq3_s(b: u32, j: u32) -> f32 {
    let i = j / 32u;
    let l = j / 4u % 8u;
    let scale = (data_u8(b + 106u + i / 2u) >> (4u * (i % 2u))) & 15u;
    let d = half_at(b) * f32(1u + 2u * scale);
    let high = (data_u8(b + 66u + i) >> l) & 1u;
    let line = data_u8(b + 2u + 8u * i + l) | (high << 8u);
    let signs = data_u8(b + 74u + 4u * i + l / 2u) >> (4u * (l % 2u));
    return signed(d * grid(line, 4u, j % 4u), signs, j % 4u);
}

// Returns `d` times a number of a line, plus or minus an eighth.
fn shifted(d: f32, line: u32, down: bool, j: u32) -> f32 {
    return d * (grid(line & 2047u, 8u, j % 8u) + select(0.125, -0.125, down));
}

fn iq1_s(b: u32, j: u32) -> f32 {
    let i = j / 8u;
    let high = data_u16(b + 34u + 2u * (i / 4u));
    let d = half_at(b) * f32(2u * ((high >> 12u) & 7u) + 1u);
    let line = data_u8(b + 2u + i) | (((high >> (3u * (i % 4u))) & 7u) << 8u);
    return shifted(d, line, (high & 0x8000u) != 0u, j);
}

// Returns the half float whose bits are spread over four numbers, in the top four bits of each.
fn spread_half(b: u32) -> f32 {
    var bits = 0u;
    for (var i = 0u; i < 4u; i++) {
        bits |= (data_u16(b + 48u + 2u * i) >> 12u) << (4u * i);
    }
    return bitcast<f32>(bits_of_half(bits));
}

fn iq1_m(b: u32, j: u32) -> f32 {
    let i = j / 8u;
    let scales = data_u16(b + 48u + 2u * (i / 8u));
    let d = spread_half(b) * f32(2u * ((scales >> (3u * (i / 2u % 4u))) & 7u) + 1u);
    let high = data_u8(b + 32u + i / 2u) >> (4u * (i % 2u));
    let line = data_u8(b + i) | ((high & 7u) << 8u);
    return shifted(d, line, (high & 8u) != 0u, j);
}
