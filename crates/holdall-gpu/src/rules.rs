//! What can go wrong on the way to a device. `docs/gpu.md` speaks of every one.

holdall::error::rules! {
    /// The rules of loads into buffers of a device.
    pub static RULES;

    /// There is nothing to compute on.
    pub NO_ADAPTER: Unsupported "gpu/no-adapter"
        "There is an adapter that wgpu can use."
        hint "install a driver for Vulkan, Metal or Direct3D 12; `mesa-vulkan-drivers` has one that needs no graphics card";
    /// The device is gone.
    pub LOST: Io "gpu/lost"
        "A device is there until all work given to it is done."
        hint "ask the adapter for a new device, and load again";
    /// The device has no room.
    pub MEMORY: Limit "gpu/memory"
        "The device has memory for what is loaded."
        remedies [LeaveOut];
    /// The device refuses what is asked of it.
    pub REFUSED: Unsupported "gpu/refused"
        "The device does what it is asked, within its limits.";
    /// A limit of the device that leaves no room for anything.
    pub LIMITS: Unsupported "gpu/limits"
        "Buffers and bindings of a device have room for at least 256 bytes.";
    /// A component of which nothing says how long it is.
    pub UNKNOWN_LEN: Unsupported "gpu/unknown-length"
        "The decoded length of a component is known before it is loaded."
        remedies [LeaveOut];
    /// A tensor that one binding cannot hold.
    pub PAGES: Misuse "gpu/pages"
        "What is bound as a whole lies in one page."
        hint "bind its pages one by one; `shader::paged` writes the function that reads across them";
    /// A tensor that does not become numbers on the device.
    pub CONVERSION: Unsupported "gpu/conversion"
        "Tensors become dense on the device where there is a shader for their elements or blocks."
        remedies [MakeDense];
    /// A stream that was ended before a tensor came.
    pub ENDED: Misuse "gpu/ended"
        "A tensor is waited for while the stream that brings it goes on.";
}
