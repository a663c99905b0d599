/// "Int8"
pub mod v1 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i8;
}
/// "Int16"
pub mod v2 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i16;
}
/// "Int32"
pub mod v3 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i32;
}
/// "Int64"
pub mod v4 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i64;
}
/// "Uint8"
pub mod v5 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "Uint16"
pub mod v6 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u16;
}
/// "Uint32"
pub mod v7 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u32;
}
/// "Uint64"
pub mod v8 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u64;
}
/// "Float16"
pub mod v9 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = half::f16;
}
/// "Float32"
pub mod v10 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = f32;
}
/// "Float64"
pub mod v11 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = f64;
}
/// "BFloat16"
pub mod v12 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = half::bf16;
}
/// "Float8E4M3"
pub mod v13 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "Float8E5M2"
pub mod v14 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "Boolean"
pub mod v15 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = bool;
}
/// "Complex64"
pub mod v16 {
    // Records of 8 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [f32; 2];
}
/// "Complex128"
pub mod v17 {
    // Records of 16 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [f64; 2];
}
/// "Timestamp"
pub mod v18 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i64;
}
/// "an enum of 256"
pub mod v19 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "an enum of 257"
pub mod v20 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u16;
}
/// "an empty struct"
pub mod v21 {
    // Records of 0 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 0 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct Record {
    }
}
/// "an empty struct, packed"
pub mod v22 {
    // Records of 0 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 0 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
    }
}
/// "a struct of one byte takes 16"
pub mod v23 {
    // Records of 16 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 16 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct Record {
        pub a: i8,
    }
}
/// "a natural struct"
pub mod v24 {
    // Records of 8 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 8 bytes, aligned to 4.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        pub b: i32,
    }
}
/// "a packed struct"
pub mod v25 {
    // Records of 5 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 5 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(1))]
    pub struct Record {
        pub a: i8,
        pub b: i32,
    }
}
/// "align 2 caps the members"
pub mod v26 {
    // Records of 10 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 10 bytes, aligned to 2.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(2))]
    pub struct Record {
        pub a: i8,
        pub b: i64,
    }
}
/// "align 64 on a struct"
pub mod v27 {
    // Records of 64 bytes, aligned to 64: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 64 bytes, aligned to 64.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(64))]
    pub struct Record {
        pub a: i8,
    }
}
/// "a member above 16 lifts the struct"
pub mod v28 {
    // Records of 64 bytes, aligned to 32: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 64 bytes, aligned to 32.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(32))]
    pub struct Record {
        pub a: i8,
        /// padding.
        pub _gap: [u8; 31],
        pub b: i8,
    }
}
/// "a member above 16 lifts a natural struct"
pub mod v29 {
    // Records of 32 bytes, aligned to 32: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 32 bytes, aligned to 32.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(32))]
    pub struct Record {
        pub b: i8,
    }
}
/// "align on a scalar changes its stride, not its size"
pub mod v30 {
    // Records of 4 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = f32;
}
/// "align below the kind's own"
pub mod v31 {
    // Records of 9 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 9 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(1))]
    pub struct Record {
        pub a: i8,
        pub b: i64,
    }
}
/// "align natural on a scalar is its own"
pub mod v32 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i64;
}
/// "the order of the keyword counts"
pub mod v33 {
    // Records of 4 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 2.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub z: i16,
        pub a: i8,
    }
}
/// "the worked example"
pub mod v34 {
    // Records of 32 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 32 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: flag.
        pub _flag: [u8; 1],
        pub id: u32,
        /// text: name.
        pub _name: [u8; 16],
    }
}
/// "eight optional members"
pub mod v35 {
    // Records of 9 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 9 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: m0.
        pub _m0: [u8; 1],
        /// a number, may be absent: m1.
        pub _m1: [u8; 1],
        /// a number, may be absent: m2.
        pub _m2: [u8; 1],
        /// a number, may be absent: m3.
        pub _m3: [u8; 1],
        /// a number, may be absent: m4.
        pub _m4: [u8; 1],
        /// a number, may be absent: m5.
        pub _m5: [u8; 1],
        /// a number, may be absent: m6.
        pub _m6: [u8; 1],
        /// a number, may be absent: m7.
        pub _m7: [u8; 1],
    }
}
/// "nine optional members"
pub mod v36 {
    // Records of 11 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 11 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 2],
        /// a number, may be absent: m0.
        pub _m0: [u8; 1],
        /// a number, may be absent: m1.
        pub _m1: [u8; 1],
        /// a number, may be absent: m2.
        pub _m2: [u8; 1],
        /// a number, may be absent: m3.
        pub _m3: [u8; 1],
        /// a number, may be absent: m4.
        pub _m4: [u8; 1],
        /// a number, may be absent: m5.
        pub _m5: [u8; 1],
        /// a number, may be absent: m6.
        pub _m6: [u8; 1],
        /// a number, may be absent: m7.
        pub _m7: [u8; 1],
        /// a number, may be absent: m8.
        pub _m8: [u8; 1],
    }
}
/// "required members have no bit"
pub mod v37 {
    // Records of 4 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: a.
        pub _a: [u8; 1],
        pub b: i8,
        /// a number, may be absent: c.
        pub _c: [u8; 1],
    }
}
/// "without required all members are optional"
pub mod v38 {
    // Records of 4 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 2.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(2))]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        pub _gap: [u8; 1],
        /// a number, may be absent: a.
        pub _a: [u8; 2],
    }
}
/// "a struct in a struct"
pub mod v39 {
    // Records of 32 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 16 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct RecordS {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: x.
        pub _x: [u8; 1],
        pub y: i16,
    }

    /// 32 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        pub s: RecordS,
    }
}
/// "a struct packed in a packed struct"
pub mod v40 {
    // Records of 5 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(1))]
    pub struct RecordS {
        pub x: i32,
    }

    /// 5 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        pub s: RecordS,
    }
}
/// "a struct aligned to 16 in a packed struct"
pub mod v41 {
    // Records of 17 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 16 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct RecordS {
        pub x: i32,
    }

    /// 17 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        /// a struct: s.
        pub _s: [u8; 16],
    }
}
/// "a fixed array"
pub mod v42 {
    // Records of 6 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [i16; 3];
}
/// "a fixed array of fixed arrays"
pub mod v43 {
    // Records of 6 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [[i8; 3]; 2];
}
/// "a fixed array of structs"
pub mod v44 {
    // Records of 80 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 8 bytes, aligned to 4.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct RecordItem {
        pub x: f32,
        pub y: f32,
    }

    pub type Record = [RecordItem; 10];
}
/// "counts may be written with a point"
pub mod v45 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [i8; 2];
}
/// "align on a fixed array"
pub mod v46 {
    // Records of 3 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [i8; 3];
}
/// "a variable array of structs aligns the heap"
pub mod v47 {
    // Records of 16 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 16 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct Record {
        /// an array: a.
        pub _a: [u8; 16],
    }
}
/// "a tensor"
pub mod v48 {
    // Records of 24 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [[f32; 3]; 2];
}
/// "a tensor without dimensions"
pub mod v49 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [f64; 1];
}
/// "names with dots, brackets and backslashes"
pub mod v50 {
    // Records of 4 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        #[record(name = "a.b")]
        pub a_b: i8,
        #[record(name = "c[0]")]
        pub c_0_: i8,
        #[record(name = "d\\")]
        pub d_: i8,
        #[record(name = "")]
        pub m_: i8,
    }
}
/// "a reference with escapes"
pub mod v51 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 2 bytes, aligned to 2.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub x: i16,
    }
}
/// "a reference at the root"
pub mod v52 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 4.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub x: f32,
    }
}
/// "integers at their lower ends"
pub mod v53 {
    // Records of 15 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 15 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(1))]
    pub struct Record {
        pub a: i8,
        pub b: i16,
        pub c: i32,
        pub d: i64,
    }
}
/// "integers at their upper ends"
pub mod v54 {
    // Records of 15 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 15 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(1))]
    pub struct Record {
        pub a: u8,
        pub b: u16,
        pub c: u32,
        pub d: u64,
    }
}
/// "an integer with a point"
pub mod v55 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i16;
}
/// "Float32"
pub mod v56 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = f32;
}
/// "Float64"
pub mod v57 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = f64;
}
/// "Float16 largest"
pub mod v58 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = half::f16;
}
/// "BFloat16"
pub mod v59 {
    // Records of 2 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = half::bf16;
}
/// "Float8E4M3 largest"
pub mod v60 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "Float8E5M2"
pub mod v61 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "numbers that JSON lacks"
pub mod v62 {
    // Records of 19 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 19 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, packed(1))]
    pub struct Record {
        pub a: f32,
        pub b: f32,
        pub c: f64,
        pub d: half::f16,
        pub e: u8,
    }
}
/// "Complex64"
pub mod v63 {
    // Records of 8 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [f32; 2];
}
/// "Complex128"
pub mod v64 {
    // Records of 16 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [f64; 2];
}
/// "Booleans"
pub mod v65 {
    // Records of 3 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [bool; 3];
}
/// "a time"
pub mod v66 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i64;
}
/// "an enum"
pub mod v67 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "a struct with an absent member"
pub mod v68 {
    // Records of 4 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 4 bytes, aligned to 2.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: a.
        pub _a: [u8; 1],
        pub b: i16,
    }
}
/// "a present member of zero"
pub mod v69 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 2 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: a.
        pub _a: [u8; 1],
    }
}
/// "members in any order"
pub mod v70 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 2 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        pub b: i8,
    }
}
/// "a default for a required member"
pub mod v71 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 2 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        pub b: i8,
    }
}
/// "no default for an optional member"
pub mod v72 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 2 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        /// which optional members are there.
        pub _presence: [u8; 1],
        /// a number, may be absent: a.
        pub _a: [u8; 1],
    }
}
/// "a default nearest to its use"
pub mod v73 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 2 bytes, aligned to 1.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C)]
    pub struct Record {
        pub a: i8,
        pub b: i8,
    }
}
/// "strings"
pub mod v74 {
    // Records of 32 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 32 bytes, aligned to 8.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(8))]
    pub struct Record {
        /// text: a.
        pub _a: [u8; 16],
        /// text: b.
        pub _b: [u8; 16],
    }
}
/// "a variable array starts aligned"
pub mod v75 {
    // Records of 32 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 32 bytes, aligned to 8.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(8))]
    pub struct Record {
        /// text: a.
        pub _a: [u8; 16],
        /// an array: b.
        pub _b: [u8; 16],
    }
}
/// "a tensor in a record"
pub mod v76 {
    // Records of 8 bytes, aligned to 2: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [[i16; 2]; 2];
}
/// "a tensor without dtype and shape"
pub mod v77 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [f32; 1];
}
/// "a tensor of booleans"
pub mod v78 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [bool; 2];
}
/// "Int8 over its range"
pub mod v79 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i8;
}
/// "Uint64 below 0"
pub mod v80 {
    // Records of 8 bytes, aligned to 8: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u64;
}
/// "an integer with a fraction"
pub mod v81 {
    // Records of 4 bytes, aligned to 4: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = i32;
}
/// "a number for a boolean"
pub mod v82 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = bool;
}
/// "a missing member"
pub mod v83 {
    // Records of 16 bytes, aligned to 16: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    /// 16 bytes, aligned to 16.
    #[derive(Clone, Copy, Debug, holdall::records::Record)]
    #[repr(C, align(16))]
    pub struct Record {
        pub a: i8,
        pub b: i8,
    }
}
/// "too few elements"
pub mod v84 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [i8; 2];
}
/// "a string that the enum lacks"
pub mod v85 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}
/// "a tensor of another dtype"
pub mod v86 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [u8; 1];
}
/// "a tensor of another shape"
pub mod v87 {
    // Records of 2 bytes, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = [u8; 2];
}
/// "an enum past its list"
pub mod v88 {
    // Records of 1 byte, aligned to 1: `records.structs::<Record>()` compares them with the schema.
    // Made by `holdall schema code`.

    pub type Record = u8;
}

pub const ALL: &[super::Mirror] = &[
    ("Int8", |r| r.structs::<v1::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Int16", |r| r.structs::<v2::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Int32", |r| r.structs::<v3::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Int64", |r| r.structs::<v4::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Uint8", |r| r.structs::<v5::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Uint16", |r| r.structs::<v6::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Uint32", |r| r.structs::<v7::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Uint64", |r| r.structs::<v8::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float16", |r| r.structs::<v9::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float32", |r| r.structs::<v10::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float64", |r| r.structs::<v11::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("BFloat16", |r| r.structs::<v12::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float8E4M3", |r| r.structs::<v13::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float8E5M2", |r| r.structs::<v14::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Boolean", |r| r.structs::<v15::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Complex64", |r| r.structs::<v16::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Complex128", |r| r.structs::<v17::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Timestamp", |r| r.structs::<v18::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an enum of 256", |r| r.structs::<v19::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an enum of 257", |r| r.structs::<v20::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an empty struct", |r| r.structs::<v21::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an empty struct, packed", |r| r.structs::<v22::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a struct of one byte takes 16", |r| r.structs::<v23::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a natural struct", |r| r.structs::<v24::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a packed struct", |r| r.structs::<v25::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("align 2 caps the members", |r| r.structs::<v26::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("align 64 on a struct", |r| r.structs::<v27::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a member above 16 lifts the struct", |r| r.structs::<v28::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a member above 16 lifts a natural struct", |r| r.structs::<v29::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("align on a scalar changes its stride, not its size", |r| r.structs::<v30::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("align below the kind's own", |r| r.structs::<v31::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("align natural on a scalar is its own", |r| r.structs::<v32::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("the order of the keyword counts", |r| r.structs::<v33::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("the worked example", |r| r.structs::<v34::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("eight optional members", |r| r.structs::<v35::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("nine optional members", |r| r.structs::<v36::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("required members have no bit", |r| r.structs::<v37::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("without required all members are optional", |r| r.structs::<v38::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a struct in a struct", |r| r.structs::<v39::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a struct packed in a packed struct", |r| r.structs::<v40::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a struct aligned to 16 in a packed struct", |r| r.structs::<v41::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a fixed array", |r| r.structs::<v42::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a fixed array of fixed arrays", |r| r.structs::<v43::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a fixed array of structs", |r| r.structs::<v44::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("counts may be written with a point", |r| r.structs::<v45::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("align on a fixed array", |r| r.structs::<v46::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a variable array of structs aligns the heap", |r| r.structs::<v47::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor", |r| r.structs::<v48::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor without dimensions", |r| r.structs::<v49::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("names with dots, brackets and backslashes", |r| r.structs::<v50::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a reference with escapes", |r| r.structs::<v51::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a reference at the root", |r| r.structs::<v52::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("integers at their lower ends", |r| r.structs::<v53::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("integers at their upper ends", |r| r.structs::<v54::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an integer with a point", |r| r.structs::<v55::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float32", |r| r.structs::<v56::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float64", |r| r.structs::<v57::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float16 largest", |r| r.structs::<v58::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("BFloat16", |r| r.structs::<v59::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float8E4M3 largest", |r| r.structs::<v60::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Float8E5M2", |r| r.structs::<v61::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("numbers that JSON lacks", |r| r.structs::<v62::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Complex64", |r| r.structs::<v63::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Complex128", |r| r.structs::<v64::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Booleans", |r| r.structs::<v65::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a time", |r| r.structs::<v66::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an enum", |r| r.structs::<v67::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a struct with an absent member", |r| r.structs::<v68::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a present member of zero", |r| r.structs::<v69::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("members in any order", |r| r.structs::<v70::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a default for a required member", |r| r.structs::<v71::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("no default for an optional member", |r| r.structs::<v72::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a default nearest to its use", |r| r.structs::<v73::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("strings", |r| r.structs::<v74::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a variable array starts aligned", |r| r.structs::<v75::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor in a record", |r| r.structs::<v76::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor without dtype and shape", |r| r.structs::<v77::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor of booleans", |r| r.structs::<v78::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Int8 over its range", |r| r.structs::<v79::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("Uint64 below 0", |r| r.structs::<v80::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an integer with a fraction", |r| r.structs::<v81::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a number for a boolean", |r| r.structs::<v82::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a missing member", |r| r.structs::<v83::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("too few elements", |r| r.structs::<v84::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a string that the enum lacks", |r| r.structs::<v85::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor of another dtype", |r| r.structs::<v86::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("a tensor of another shape", |r| r.structs::<v87::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
    ("an enum past its list", |r| r.structs::<v88::Record>()?.iter(0..r.len())?.map(|x| Ok(format!("{:?}", x?))).collect()),
];
