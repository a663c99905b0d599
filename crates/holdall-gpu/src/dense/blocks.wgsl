// Decodes ggml's blocks, element by element. `b` is the byte at which a block starts, `j` the index of the element in
// it. The formulas are those of `holdall_core::layout::blocks`. Every product is exact in 24 bits, so that no device
// rounds differently.

fn nibble(byte: u32, low: bool) -> u32 {
    let both = data_u8(byte);
    return select(both >> 4u, both & 15u, low);
}

fn q4_0(b: u32, j: u32) -> f32 {
    return half_at(b) * (f32(nibble(b + 2u + j % 16u, j < 16u)) - 8.0);
}

fn q4_1(b: u32, j: u32) -> f32 {
    return half_at(b) * f32(nibble(b + 4u + j % 16u, j < 16u)) + half_at(b + 2u);
}

fn fifth(b: u32, j: u32) -> u32 {
    return ((data_u8(b + j / 8u) >> (j % 8u)) & 1u) << 4u;
}

fn q5_0(b: u32, j: u32) -> f32 {
    let q = nibble(b + 6u + j % 16u, j < 16u) | fifth(b + 2u, j);
    return half_at(b) * (f32(q) - 16.0);
}

fn q5_1(b: u32, j: u32) -> f32 {
    let q = nibble(b + 8u + j % 16u, j < 16u) | fifth(b + 4u, j);
    return half_at(b) * f32(q) + half_at(b + 2u);
}

fn q8_0(b: u32, j: u32) -> f32 {
    return half_at(b) * f32(data_i8(b + 2u + j));
}

fn q8_1(b: u32, j: u32) -> f32 {
    return half_at(b) * f32(data_i8(b + 4u + j));
}

const IQ4 = array<f32, 16>(-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0);
const E2M1 = array<f32, 16>(0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0);

fn iq4(q: u32) -> f32 {
    var all = IQ4;
    return all[q];
}

fn e2m1(q: u32) -> f32 {
    var all = E2M1;
    return all[q];
}

fn iq4_nl(b: u32, j: u32) -> f32 {
    return half_at(b) * iq4(nibble(b + 2u + j % 16u, j < 16u));
}

fn iq4_xs(b: u32, j: u32) -> f32 {
    let i = j / 32u;
    let low = (data_u8(b + 4u + i / 2u) >> (4u * (i % 2u))) & 15u;
    let high = (data_u16(b + 2u) >> (2u * i)) & 3u;
    let scale = f32(low | (high << 4u)) - 32.0;
    return half_at(b) * scale * iq4(nibble(b + 8u + 16u * i + j % 16u, j % 32u < 16u));
}

fn mxfp4(b: u32, j: u32) -> f32 {
    let e = data_u8(b);
    let bits = select((e - 1u) << 23u, 0x200000u << e, e < 2u);
    return bitcast<f32>(bits) * e2m1(nibble(b + 1u + j % 16u, j < 16u));
}

// Returns half of an E4M3 without its sign; 0x7F is 0 too.
fn half_of_e4m3(x: u32) -> f32 {
    let exponent = (x >> 3u) & 15u;
    let mantissa = x & 7u;
    let normal = bitcast<f32>(((exponent + 119u) << 23u) | (mantissa << 20u));
    return select(select(normal, f32(mantissa) * 0.0009765625, exponent == 0u), 0.0, x == 0x7fu);
}

fn nvfp4(b: u32, j: u32) -> f32 {
    let i = j / 16u;
    return half_of_e4m3(data_u8(b + i)) * e2m1(nibble(b + 4u + 8u * i + j % 8u, j % 16u < 8u));
}

fn q1_0(b: u32, j: u32) -> f32 {
    let d = half_at(b);
    return select(-d, d, ((data_u8(b + 2u + j / 8u) >> (j % 8u)) & 1u) == 1u);
}

fn q2_0(b: u32, j: u32) -> f32 {
    return (f32((data_u8(b + 2u + j / 4u) >> (2u * (j % 4u))) & 3u) - 1.0) * half_at(b);
}

fn q2_k(b: u32, j: u32) -> f32 {
    let i = j / 16u;
    let scales = data_u8(b + i);
    let q = (data_u8(b + 16u + 32u * (i / 8u) + 16u * (i % 2u) + j % 16u) >> (2u * (i / 2u % 4u))) & 3u;
    return half_at(b + 80u) * f32(scales & 15u) * f32(q) - half_at(b + 82u) * f32(scales >> 4u);
}

fn q3_k(b: u32, j: u32) -> f32 {
    let i = j / 16u;
    let low = (data_u8(b + 96u + i % 8u) >> (4u * (i / 8u))) & 15u;
    let high = (data_u8(b + 104u + i % 4u) >> (2u * (i / 4u))) & 3u;
    let scale = f32(low | (high << 4u)) - 32.0;
    let q = (data_u8(b + 32u + 32u * (i / 8u) + 16u * (i % 2u) + j % 16u) >> (2u * (i / 2u % 4u))) & 3u;
    let bit = (data_u8(b + 16u * (i % 2u) + j % 16u) >> (i / 2u)) & 1u;
    return half_at(b + 108u) * scale * (f32(q) - select(4.0, 0.0, bit == 1u));
}

// Returns scale number `i` of the eight that 12 bytes hold, 6 bits each, and its offset.
fn six_bits(b: u32, i: u32) -> vec2<f32> {
    if i < 4u {
        return vec2<f32>(f32(data_u8(b + i) & 63u), f32(data_u8(b + i + 4u) & 63u));
    }
    let both = data_u8(b + i + 4u);
    let scale = (both & 15u) | ((data_u8(b + i - 4u) >> 6u) << 4u);
    return vec2<f32>(f32(scale), f32((both >> 4u) | ((data_u8(b + i) >> 6u) << 4u)));
}

fn q4_k(b: u32, j: u32) -> f32 {
    let i = j / 32u;
    let both = six_bits(b + 4u, i);
    let q = (data_u8(b + 16u + 32u * (i / 2u) + j % 32u) >> (4u * (i % 2u))) & 15u;
    return half_at(b) * both.x * f32(q) - half_at(b + 2u) * both.y;
}

fn q5_k(b: u32, j: u32) -> f32 {
    let i = j / 32u;
    let both = six_bits(b + 4u, i);
    let low = (data_u8(b + 48u + 32u * (i / 2u) + j % 32u) >> (4u * (i % 2u))) & 15u;
    let high = (data_u8(b + 16u + j % 32u) >> i) & 1u;
    return half_at(b) * both.x * f32(low | (high << 4u)) - half_at(b + 2u) * both.y;
}

fn q6_k(b: u32, j: u32) -> f32 {
    let i = j / 16u;
    let part = i % 8u;
    let scale = half_at(b + 208u) * f32(data_i8(b + 192u + i));
    let low = (data_u8(b + 64u * (i / 8u) + 16u * (part % 4u) + j % 16u) >> (4u * (part / 4u))) & 15u;
    let high = (data_u8(b + 128u + 32u * (i / 8u) + 16u * (i % 2u) + j % 16u) >> (2u * (part / 2u))) & 3u;
    return scale * (f32(low | (high << 4u)) - 32.0);
}

fn q8_k(b: u32, j: u32) -> f32 {
    let d = data_u16(b) | (data_u16(b + 2u) << 16u);
    return bitcast<f32>(d) * f32(data_i8(b + 4u + j));
}

fn tq2_0(b: u32, j: u32) -> f32 {
    let i = j / 32u;
    let q = (data_u8(b + 32u * (i / 4u) + j % 32u) >> (2u * (i % 4u))) & 3u;
    return half_at(b + 64u) * (f32(q) - 1.0);
}

// Multiplying by a power of three moves one digit of base three to the top of a byte.
fn tq1_0(b: u32, j: u32) -> f32 {
    var powers = array<u32, 5>(1u, 3u, 9u, 27u, 81u);
    var byte = 0u;
    var power = 0u;
    if j < 160u {
        byte = j % 32u;
        power = powers[j / 32u];
    } else if j < 240u {
        byte = 32u + (j - 160u) % 16u;
        power = powers[(j - 160u) / 16u];
    } else {
        byte = 48u + (j - 240u) % 4u;
        power = powers[(j - 240u) / 4u];
    }
    let q = (data_u8(b + byte) * power) & 255u;
    return half_at(b + 52u) * (f32((q * 3u) >> 8u) - 1.0);
}
