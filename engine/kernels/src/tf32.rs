//! Whether f32 may be rounded to TF32 on GPUs of NVIDIA: [`allow_tf32`].

#[cfg(all(gpu_kernels, feature = "cudnn"))]
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this build can round f32 to TF32: with the feature `cudnn`.
pub const HAS_TF32: bool = cfg!(all(gpu_kernels, feature = "cudnn"));

#[cfg(all(gpu_kernels, feature = "cudnn"))]
static ALLOWED: AtomicBool = AtomicBool::new(false);

/// Lets GPUs of NVIDIA round f32 to TF32 (10 bits in place of 23), or forbids it, from now on in this
/// process: in convolutions by the [vendor's library](crate::Convolutions), and in products of matrices
/// on devices that are used for the first time afterwards. Forbidden by default, because a third decimal
/// differs. Without effect in a build without [`HAS_TF32`].
pub fn allow_tf32(allowed: bool) {
    #[cfg(all(gpu_kernels, feature = "cudnn"))]
    {
        ALLOWED.store(allowed, Ordering::Relaxed);
        cubecl_runtime::server::TF32.store(allowed, Ordering::Relaxed);
    }
    #[cfg(not(all(gpu_kernels, feature = "cudnn")))]
    let _ = allowed;
}

/// Whether it is allowed.
#[cfg(all(gpu_kernels, feature = "cudnn"))]
pub(crate) fn is_allowed() -> bool {
    ALLOWED.load(Ordering::Relaxed)
}
