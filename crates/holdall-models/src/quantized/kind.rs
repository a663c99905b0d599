//! The table of kinds.

use std::fmt;

/// Defines the enum of kinds and the functions that need a line for each.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal $writer:literal;)*) => {
        /// A way to store a quantized weight as several tensors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
        }

        /// All kinds.
        pub const KINDS: &[Kind] = &[$(Kind::$variant,)*];

        impl Kind {
            /// Returns the name of the kind in all of Holdall's output.
            pub const fn as_str(self) -> &'static str {
                match self { $(Kind::$variant => $name,)* }
            }

            /// Returns the name of the software that writes this kind.
            pub const fn writer(self) -> &'static str {
                match self { $(Kind::$variant => $writer,)* }
            }
        }
    };
}

kinds! {
    /// 8-bit floats with one scale per tensor or per row.
    Fp8 "fp8" "several";
    /// 8-bit floats with one scale per rectangular block.
    Fp8Block "fp8-block" "DeepSeek, Qwen and others";
    /// 8-bit floats or pairs of 4-bit floats, with scales that are powers of two.
    DeepSeekV4 "deepseek-v4" "DeepSeek";
    /// 8-bit floats with scales per tensor, row, group or block.
    CompressedFloat "ct-float" "compressed-tensors";
    /// 8-bit integers with scales per tensor, row, group or block.
    CompressedInt "ct-int" "compressed-tensors";
    /// Integers of 1 to 8 bits, packed into words along rows.
    CompressedPacked "ct-pack" "compressed-tensors";
    /// 4-bit floats with scales of 16 elements, divided by one scale per tensor.
    CompressedNvfp4 "ct-nvfp4" "compressed-tensors";
    /// 4-bit floats with a power of two for 32 elements.
    CompressedMxfp4 "ct-mxfp4" "compressed-tensors";
    /// 6-bit floats with a power of two for 32 elements.
    CompressedMxfp6 "ct-mxfp6" "compressed-tensors";
    /// 8-bit floats with a power of two for 32 elements.
    CompressedMxfp8 "ct-mxfp8" "compressed-tensors";
    /// 4-bit floats with scales of 16 elements, multiplied by one scale per tensor.
    ModeloptNvfp4 "modelopt-nvfp4" "NVIDIA Model Optimizer";
    /// Integers packed down the columns of the transposed weight.
    Gptq "gptq" "AutoGPTQ, GPTQModel";
    /// 4-bit integers of the transposed weight, packed along its rows in an interleaved order.
    AwqGemm "awq-gemm" "AutoAWQ";
    /// 4-bit integers packed along the rows of the weight.
    AwqGemv "awq-gemv" "AutoAWQ";
    /// 4-bit codes of 16 values, with one scale per block of the flat weight.
    BitsAndBytes4 "bnb-4bit" "bitsandbytes";
    /// 8-bit integers with the largest magnitude of each row.
    BitsAndBytes8 "bnb-int8" "bitsandbytes";
    /// Integers of 2 to 8 bits with a scale and a bias per group.
    MlxAffine "mlx-affine" "MLX";
    /// 4-bit floats with a power of two for 32 elements.
    MlxMxfp4 "mlx-mxfp4" "MLX";
    /// 8-bit floats with a power of two for 32 elements.
    MlxMxfp8 "mlx-mxfp8" "MLX";
    /// 4-bit floats with scales of 16 elements.
    MlxNvfp4 "mlx-nvfp4" "MLX";
    /// Blocks of 32 4-bit floats of the transposed weights of experts.
    GptOss "gpt-oss-mxfp4" "gpt-oss";
    /// 8-bit floats with one scale per tensor.
    ComfyFp8 "comfy-fp8" "ComfyUI";
    /// 4-bit floats, the high nibble first, with scales in tiles.
    ComfyNvfp4 "comfy-nvfp4" "ComfyUI";
    /// 8-bit floats with powers of two for 32 elements, in tiles.
    ComfyMxfp8 "comfy-mxfp8" "ComfyUI";
    /// 8-bit integers with one scale per tensor or row.
    ComfyInt8 "comfy-int8" "ComfyUI";
    /// 8-bit integers or floats with scales per block.
    Torchao "torchao" "torchao";
    /// 8-bit integers or floats with one scale per row or tensor.
    Quanto "quanto" "optimum-quanto";
    /// Integers of 2 or 4 bits in groups, with a scale and a shift per group.
    QuantoPacked "quanto-packed" "optimum-quanto";
    /// Integers of 1 to 8 bits in groups, with a scale and a zero point per group.
    Hqq "hqq" "HQQ";
    /// The numbers -1, 0 and 1 in two bits, divided by one scale.
    BitNet "bitnet" "transformers";
    /// A kind that is not supported.
    Unknown "unknown" "unknown";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
