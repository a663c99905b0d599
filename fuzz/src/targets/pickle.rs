//! The scan of a pickle that can be read lists everything that it would import, and other bytes are never taken for a
//! complete pickle.

use crate::limits;
use holdall_core::wire::pickle;
use holdall_formats::scan::trace;

/// Panics if the property does not hold.
pub fn run(data: &[u8]) {
    let most = limits::tight().attribute_values;
    let input = |max_values| trace::Input {
        bytes: data,
        total: data.len() as u64,
        max_values,
        is_first: true,
    };
    for (at, found) in trace::all(input(most)) {
        assert!(at.saturating_add(found.len) <= data.len() as u64, "it is in the bytes");
        assert!(found.imports.iter().all(|import| import.offset <= found.len));
    }
    let Ok(Some((graph, _, len))) = pickle::read(data, 0, most) else { return };
    let found = trace::Trace::new(input(u64::MAX));
    // Readers of tensors accept more: the trace may know that Python raises an error before, or that unpicklers differ.
    if !matches!(found.end, trace::End::Finished) {
        return;
    }
    assert_eq!(found.len, len, "both end at the same place");
    for (module, name) in graph.globals() {
        // Non-ASCII texts of Python 2 become what the program decodes them to.
        let is_it = |i: &trace::Import| {
            let is_same = |own: &str, text: &str| own == text || (own == "?" && !text.is_ascii());
            is_same(&i.module, module) && is_same(&i.name, name)
        };
        let is_long = module.len().max(name.len()) > 256;
        assert!(is_long || found.imports.iter().any(is_it), "`{module}.{name}` is not reported");
    }
}

/// Returns the pickle of a zip, and a whole file from before PyTorch 1.6.
pub(crate) fn seeds(file: &[u8]) -> Vec<Vec<u8>> {
    let start = file.windows(2).position(|w| w == [0x80, 2] || w == [0x80, 4]);
    start.and_then(|at| file.get(at..)).map(<[u8]>::to_vec).into_iter().collect()
}
