//! Rules about loading onto a device. `docs/gpu.md` explains each of them.

holdall::error::rules! {
    /// The rules about loading into buffers of a device.
    pub static RULES;

    /// There is no usable adapter.
    pub NO_ADAPTER: Unsupported "gpu/no-adapter"
        "wgpu finds an adapter."
        hint "install a driver for Vulkan, Metal or Direct3D 12; `mesa-vulkan-drivers` has one that needs no graphics card";
    /// The device was lost.
    pub LOST: Io "gpu/lost"
        "A device is available until all work submitted to it is done."
        hint "request a new device from the adapter, and load again";
    /// The device has not enough memory.
    pub MEMORY: Limit "gpu/memory"
        "The device has enough memory for the tensors that are loaded."
        remedies [LeaveOut];
    /// The device refused an operation.
    pub REFUSED: Unsupported "gpu/refused"
        "The device accepts every operation within its limits.";
    /// The device's limits are too small for any buffer.
    pub LIMITS: Unsupported "gpu/limits"
        "A device allows buffers and bindings of at least 256 bytes.";
    /// The decoded length of a component is unknown.
    pub UNKNOWN_LEN: Unsupported "gpu/unknown-length"
        "The decoded length of a component is known before it is loaded."
        remedies [LeaveOut];
    /// A component has several pages, so that one binding cannot hold it.
    pub PAGES: Misuse "gpu/pages"
        "A component that is bound as a whole has one page."
        hint "bind its pages one by one; `shader::paged` writes the function that reads across them";
    /// A tensor cannot be converted on the device.
    pub CONVERSION: Unsupported "gpu/conversion"
        "Only tensors whose elements or blocks have a shader are converted on the device."
        remedies [MakeDense];
    /// A stream ended before a tensor was loaded.
    pub ENDED: Misuse "gpu/ended"
        "A tensor is loaded before its stream ends.";
}
