// Conversion between 16-bit and 32-bit floats with integer operations: no device rounds or flushes these.

fn bits_of_half(h: u32) -> u32 {
    let sign = (h & 0x8000u) << 16u;
    let exponent = (h >> 10u) & 31u;
    let mantissa = h & 1023u;
    if exponent == 31u {
        return sign | 0x7f800000u | (mantissa << 13u) | select(0u, 0x400000u, mantissa != 0u);
    }
    if exponent != 0u {
        return sign | ((exponent + 112u) << 23u) | (mantissa << 13u);
    }
    if mantissa == 0u {
        return sign;
    }
    // The leading one is implied in the result, so it is masked out.
    let top = firstLeadingBit(mantissa);
    return sign | ((top + 103u) << 23u) | ((mantissa << (23u - top)) & 0x7fffffu);
}

fn half_at(byte: u32) -> f32 {
    return bitcast<f32>(bits_of_half(data_u16(byte)));
}

// Rounds to the nearest, ties to even.
fn half_of_bits(x: u32) -> u32 {
    let sign = (x >> 16u) & 0x8000u;
    let magnitude = x & 0x7fffffffu;
    if magnitude > 0x7f800000u {
        return sign | 0x7e00u | ((magnitude >> 13u) & 0x3ffu);
    }
    if magnitude >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    if magnitude >= 0x38800000u {
        let rounded = magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u);
        return sign | (rounded >> 13u);
    }
    if magnitude < 0x33000000u {
        return sign;
    }
    // Subnormal half: shifted into place, with its leading one.
    let shift = 126u - (magnitude >> 23u);
    let significand = (magnitude & 0x7fffffu) | 0x800000u;
    let kept = significand >> shift;
    let rest = significand & ((1u << shift) - 1u);
    let middle = 1u << (shift - 1u);
    let up = rest > middle || (rest == middle && (kept & 1u) == 1u);
    return sign | (kept + select(0u, 1u, up));
}
