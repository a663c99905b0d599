//! Harmless names are safe only if they are used as in honest files.

use crate::scan::{text, verdict_on};
use holdall::scan::Verdict;

/// Names that are harmless as references are not when they are called, in any spelling: these take an
/// address.
#[test]
fn types_that_take_addresses_are_not_called() {
    let address = [&text("allocator")[..], b"J\x41\x41\x41\x41s"].concat();
    let by_name = |class: &[u8]| [b"\x80\x04", class, b")}", &address, b"\x92."].concat();
    for class in [
        &b"ctorch\nUntypedStorage\n"[..],
        b"ctorch\nFloatStorage\n",
        b"ctorch.storage\nUntypedStorage\n",
        b"ctorch.cuda\nFloatTensor\n",
        b"ctorch\nTensor\n",
        b"cnumpy\nuint8\n",
        b"cnumpy.matrixlib.defmatrix\nmatrix\n",
        b"cml_dtypes\nbfloat16\n",
        b"cpandas\nSeries\n",
        b"cscipy.sparse._csr\ncsr_matrix\n",
    ] {
        assert_eq!(verdict_on(&by_name(class)).0, Verdict::Suspicious, "{}", class.escape_ascii());
        let by_order = [b"\x80\x04", class, b"K\x01\x85R."].concat();
        assert_eq!(verdict_on(&by_order).0, Verdict::Suspicious, "{}", class.escape_ascii());
        let named = [b"\x80\x04", class, b"."].concat();
        assert_eq!(verdict_on(&named).0, Verdict::Safe, "{}", class.escape_ascii());
        // Through a function that calls its argument.
        for caller in [
            &b"cpandas.core.indexes.base\n_new_Index\n"[..],
            b"csklearn.neighbors._kd_tree\nnewObj\n",
            b"cpandas._libs.arrays\n__pyx_unpickle_NDArrayBacked\n",
            b"ctorch._tensor\n_rebuild_from_type_v2\n",
            b"cjax._src.array\n_reconstruct_array\n",
        ] {
            if class.starts_with(b"cpandas") && caller.starts_with(b"cpandas") {
                continue;
            }
            let through = [b"\x80\x04", caller, class, b"}", &address, b"\x86R."].concat();
            assert_eq!(verdict_on(&through).0, Verdict::Suspicious, "{}", through.escape_ascii());
        }
        let base =
            [b"\x80\x04ccopyreg\n_reconstructor\nccollections\nOrderedDict\n", class, b"N\x87R."]
                .concat();
        assert_eq!(verdict_on(&base).0, Verdict::Suspicious, "{}", base.escape_ascii());
    }
    // Through an object whose `__new__` is such a class.
    let base = [
        &b"\x80\x04ccopyreg\n_reconstructor\nccollections\nOrderedDict\ncargparse\nNamespace\n)\x81}"[..],
        &text("__new__"),
        b"cnumpy\nmatrix\nsbN\x87R.",
    ]
    .concat();
    assert_eq!(verdict_on(&base).0, Verdict::Suspicious);
    // A call without arguments creates an empty object, whose state is then set.
    let frame = b"\x80\x04cpandas\nDataFrame\n)\x81}b.";
    assert_eq!(verdict_on(frame).0, Verdict::Safe);
    let rebuilt = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n)}tR.";
    assert_eq!(verdict_on(rebuilt).0, Verdict::Safe);
    let identity = b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch.jit._pickle\nbuild_intlist\nctorch\nTensor\n)}tR.";
    assert_eq!(verdict_on(identity).0, Verdict::Suspicious);
}
