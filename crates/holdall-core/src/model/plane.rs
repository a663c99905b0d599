//! The float types whose tensors can be stored in byte planes.

use super::{DType, Role};

/// The maximum number of planes of a tensor.
pub const MAX_PLANES: usize = 8;

/// A float type whose tensors can be stored in planes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PlaneType {
    /// The name of the layout, such as `planes.bf16`.
    pub layout: &'static str,
    /// The type of the elements.
    pub dtype: DType,
    /// The number of planes: the number of bytes of an element.
    pub count: usize,
}

/// All types that can be stored in planes.
pub static PLANE_TYPES: [PlaneType; 4] = [
    PlaneType { layout: "planes.bf16", dtype: DType::Bf16, count: 2 },
    PlaneType { layout: "planes.f16", dtype: DType::F16, count: 2 },
    PlaneType { layout: "planes.f32", dtype: DType::F32, count: 4 },
    PlaneType { layout: "planes.f64", dtype: DType::F64, count: 8 },
];

/// The names of the components that contain planes.
const ROLES: [&str; MAX_PLANES] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"];

impl PlaneType {
    /// Returns the type of the layout with this name.
    pub fn by_layout(name: &str) -> Option<&'static PlaneType> {
        PLANE_TYPES.iter().find(|of| of.layout == name)
    }

    /// Returns the type for elements of `dtype`.
    pub fn by_dtype(dtype: DType) -> Option<&'static PlaneType> {
        PLANE_TYPES.iter().find(|of| of.dtype == dtype)
    }

    /// Returns the roles of the components, from `p0` on.
    pub fn roles(&self) -> impl Iterator<Item = Role> + use<> {
        ROLES.iter().take(self.count).map(|name| Role::from_name(name))
    }

    /// Returns `true` if components with this role have frames of 128 KiB when Holdall writes them: planes, and those of a delta.
    pub fn has_short_frames(role: &Role) -> bool {
        const OF_DELTAS: [&str; 10] =
            ["gaps", "mask", "d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"];
        matches!(role, Role::Other(name) if OF_DELTAS.contains(&&**name)) || Self::is_plane(role)
    }

    /// Returns `true` if a component with this role is a plane.
    pub fn is_plane(role: &Role) -> bool {
        matches!(role, Role::Other(name) if ROLES.contains(&&**name))
    }
}
