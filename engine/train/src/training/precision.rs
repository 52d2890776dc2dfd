//! Automatic mixed precision: the master weights stay f32, and the forward pass reads them in half
//! precision.
//!
//! A parameter of two or more axes (the weights of convolutions and matrix products) gets a
//! reparameterization that casts it when the forward pass reads it. A layer casts its input to its
//! weight's type. Gradients flow back through the cast to the f32 parameter, so the optimizer never
//! sees half precision. Biases, norms, their statistics, activations with parameters, and losses
//! stay in f32.
//!
//! Half precision by Micikevicius et al., *Mixed Precision Training*, ICLR 2018
//! (<https://arxiv.org/abs/1710.03740>).

use std::fmt;
use std::str::FromStr;

use burn::module::{Module, Param, Reparameterization, Reparameterizer};
use burn::tensor::{Device, FloatDType, Tensor};
use serde::{Deserialize, Serialize};

/// The number type of convolutions and matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 32-bit floats throughout.
    #[default]
    Fp32,
    /// 32-bit floats that GPUs of NVIDIA may round to TF32 (10 bits in place of 23) in products of matrices,
    /// and in convolutions by cuDNN; a third decimal differs from `Fp32`. Other devices compute as in `Fp32`.
    /// PyTorch's default for convolutions.
    Tf32,
    /// bfloat16: f32's range with 8 bits of precision. Needs no gradient scaler.
    Bf16,
    /// IEEE half: 11 bits of precision, but gradients below 6e-8 vanish; trained with a
    /// [`GradScaler`](crate::GradScaler).
    Fp16,
}

/// The device's properties that the choice of a precision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Whether the device is this machine's CPU.
    pub processor: bool,
    /// Whether the device supports bf16.
    pub bf16: bool,
}

impl Abilities {
    /// The properties of a device.
    pub fn of(device: &Device) -> Self {
        let processor = crate::device::parse("cpu").is_ok_and(|cpu| cpu == *device);
        Abilities { processor, bf16: device.supports_dtype(FloatDType::BF16) }
    }
}

/// The reason why a precision cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecisionError {
    /// The name is unknown.
    #[error("no precision is called `{0}`; known are fp32, tf32, bf16 and fp16")]
    Unknown(String),
    /// The device does not support the precision.
    #[error("{device} cannot compute in {precision}; use {instead}")]
    Unsupported {
        /// The device's display name.
        device: String,
        /// The requested precision.
        precision: Precision,
        /// The precisions that the device supports.
        instead: String,
    },
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
            Precision::Fp16 => "fp16",
        })
    }
}

impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(word: &str) -> Result<Self, PrecisionError> {
        match word {
            "fp32" => Ok(Precision::Fp32),
            "tf32" => Ok(Precision::Tf32),
            "bf16" => Ok(Precision::Bf16),
            "fp16" => Ok(Precision::Fp16),
            other => Err(PrecisionError::Unknown(other.to_owned())),
        }
    }
}

impl Precision {
    /// The element type of weights in the forward pass.
    pub fn dtype(self) -> FloatDType {
        match self {
            Precision::Fp32 | Precision::Tf32 => FloatDType::F32,
            Precision::Bf16 => FloatDType::BF16,
            Precision::Fp16 => FloatDType::F16,
        }
    }

    /// The precision of `auto`: on a GPU bf16 where it is supported, else fp32; fp32 on a CPU.
    /// Never fp16, which needs a gradient scaler and is the slowest of them.
    pub fn auto(abilities: Abilities) -> Self {
        match abilities {
            Abilities { processor: false, bf16: true } => Precision::Bf16,
            Abilities { .. } => Precision::Fp32,
        }
    }

    /// Whether f32 may be rounded to TF32 on this device, by this build.
    pub fn rounds(self, device: &Device) -> bool {
        self == Precision::Tf32 && hearth_kernels::HAS_TF32 && crate::device::is_cuda(device)
    }

    /// Prepares this process to compute in this precision, before its first work on the device. What
    /// trains decides for the process; what evaluates and predicts next to it only [checks](Self::check).
    ///
    /// # Errors
    /// A device that cannot; the error lists the precisions that it supports.
    pub fn prepare(self, device: &Device) -> Result<(), PrecisionError> {
        hearth_kernels::allow_tf32(self.rounds(device));
        self.check(device)
    }

    /// Checks that the device can compute in this precision.
    ///
    /// # Errors
    /// If it cannot; the error lists the precisions that it supports.
    pub fn check(self, device: &Device) -> Result<(), PrecisionError> {
        if device.supports_dtype(self.dtype()) {
            return Ok(());
        }
        let able = [Precision::Bf16, Precision::Fp16, Precision::Fp32];
        let able = able.into_iter().filter(|other| device.supports_dtype(other.dtype())).map(|p| p.to_string());
        Err(PrecisionError::Unsupported {
            device: crate::device::name(device),
            precision: self,
            instead: able.collect::<Vec<_>>().join(" or "),
        })
    }

    /// Returns the network with its weights read in this precision. The stored weights do not
    /// change.
    pub fn apply<M: Module>(self, network: M) -> M {
        network.apply_reparameterization(ReadAs(self))
    }
}

/// Casts a weight for the forward pass.
#[derive(Module, Debug)]
struct CastWeight {
    #[module(skip)]
    dtype: FloatDType,
}

impl Reparameterization for CastWeight {
    const NAME: &'static str = "precision";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        hearth_kernels::cast(base, self.dtype.into())
    }
}

struct ReadAs(Precision);

impl Reparameterizer for ReadAs {
    type Reparam = CastWeight;

    fn reparameterize<const D: usize>(
        &mut self,
        _path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<CastWeight>) {
        // Vectors are biases and norms.
        let cast = self.0.dtype() != FloatDType::F32 && D >= 2;
        (param, cast.then(|| CastWeight { dtype: self.0.dtype() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_bf16_where_a_card_has_it_and_never_fp16() {
        for (processor, bf16, precision) in [
            (false, true, Precision::Bf16),
            (false, false, Precision::Fp32),
            (true, true, Precision::Fp32),
            (true, false, Precision::Fp32),
        ] {
            assert_eq!(Precision::auto(Abilities { processor, bf16 }), precision, "{processor} {bf16}");
        }
        let cpu = crate::device::parse("cpu").expect("always there");
        assert!(Abilities::of(&cpu).processor);
        assert_eq!(Precision::auto(Abilities::of(&cpu)), Precision::Fp32);
    }

    #[test]
    fn other_devices_compute_tf32_as_fp32() {
        let cpu = crate::device::parse("cpu").expect("always there");
        Precision::Tf32.prepare(&cpu).expect("what was trained on a GPU can be predicted");
        assert!(!Precision::Tf32.rounds(&cpu) && !Precision::Fp32.rounds(&cpu));
        assert_eq!(("tf32".parse(), Precision::Tf32.dtype()), (Ok(Precision::Tf32), FloatDType::F32));
    }
}
