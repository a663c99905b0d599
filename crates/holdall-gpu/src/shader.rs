//! WGSL code that reads components in buffers.

use crate::model::Component;
use std::fmt::Write as _;

/// Returns WGSL that declares the pages of a component as storage bindings of `group`, starting at `binding`, and
/// functions that read across the pages: `NAME_word(i)` returns the 32-bit word `i`; `NAME_u8(i)`, `NAME_i8(i)` and
/// `NAME_u16(i)` return the number that starts at byte `i`. A component without bytes reads as 0.
///
/// The bindings are read-only. Entry `binding + n` of the bind group is [`Page::binding`](crate::Page::binding) of page
/// `n`.
pub fn paged(name: &str, group: u32, binding: u32, component: &Component) -> String {
    let mut out = String::new();
    let count = component.pages.len() as u32;
    for page in 0..count {
        let binding = binding + page;
        let _ = writeln!(
            out,
            "@group({group}) @binding({binding}) var<storage, read> {name}_{page}: array<u32>;"
        );
    }
    // All pages but the last have the same length.
    let words = component.pages.first().map_or(1, |p| p.len.div_ceil(4)).max(1);
    let _ = writeln!(out, "fn {name}_word(i: u32) -> u32 {{");
    match count {
        0 => out.push_str("    return 0u;\n"),
        1 => {
            let _ = writeln!(out, "    return {name}_0[i];");
        }
        _ => {
            let _ = writeln!(out, "    let at = i % {words}u;\n    switch i / {words}u {{");
            for page in 0..count {
                let _ = writeln!(out, "        case {page}u: {{ return {name}_{page}[at]; }}");
            }
            out.push_str("        default: { return 0u; }\n    }\n");
        }
    }
    let _ = write!(
        out,
        "}}
fn {name}_u8(i: u32) -> u32 {{
    return ({name}_word(i / 4u) >> (8u * (i % 4u))) & 255u;
}}
fn {name}_i8(i: u32) -> i32 {{
    return (i32({name}_u8(i)) ^ 128) - 128;
}}
fn {name}_u16(i: u32) -> u32 {{
    return {name}_u8(i) | ({name}_u8(i + 1u) << 8u);
}}
"
    );
    out
}
