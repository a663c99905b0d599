//! Names in WGSL.

use crate::code::name::Names;

/// Words that no field may be called: the keywords and reserved words of WGSL, except for those that a suffix already
/// avoids.
const RESERVED: &str = " NULL Self abstract active alias alignas alignof as asm asm_fragment async attribute auto await become \
    binding_array break case cast catch class co_await co_return co_yield coherent column_major common compile \
    compile_fragment concept const const_assert const_cast consteval constexpr constinit continue continuing crate debugger \
    decltype default delete demote demote_to_helper diagnostic discard do dynamic_cast else enable enum explicit export \
    extends extern external fallthrough false filter final finally fn for friend from fxgroup get goto groupshared highp if \
    impl implements import inline instanceof interface layout let loop lowp macro macro_rules match mediump meta mod module \
    move mut mutable namespace new nil noexcept noinline nointerpolation non_coherent noncoherent noperspective null nullptr \
    of operator override package packoffset partial pass patch pixelfragment precise precision premerge priv protected pub \
    public readonly ref regardless register reinterpret_cast require requires resource restrict return self set shared \
    sizeof smooth snorm static static_assert static_cast std struct subroutine super switch target template this \
    thread_local throw trait true try type typedef typeid typename typeof union unless unorm unsafe unsized use using var \
    varying virtual volatile wgsl where while with writeonly yield ";

/// Returns the name of a function, or a part of one: lower-case words with `_` between them.
pub(super) fn function_name(text: &str) -> String {
    let mut name = String::new();
    let mut was_small = false;
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() {
            was_small = false;
            if !name.is_empty() && !name.ends_with('_') {
                name.push('_');
            }
            continue;
        }
        if c.is_ascii_uppercase() && was_small {
            name.push('_');
        }
        was_small = !c.is_ascii_uppercase();
        name.push(c.to_ascii_lowercase());
    }
    name.trim_end_matches('_').to_owned()
}

/// Returns the last part of a constant's name.
pub(super) fn constant_name(text: &str) -> String {
    let name = function_name(text).to_ascii_uppercase();
    if name.is_empty() { "EMPTY".to_owned() } else { name }
}

/// Returns the name of a field: that of the member if it is valid in WGSL.
pub(super) fn field_name(text: &str) -> String {
    let name = Names::field_name(text);
    match RESERVED.contains(&format!(" {name} ")) {
        true => format!("{name}_"),
        false => name,
    }
}
