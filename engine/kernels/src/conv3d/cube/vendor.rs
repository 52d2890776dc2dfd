//! Convolutions by the vendor's library: [`computed`].
//!
//! The library's work is queued on CubeCL's own stream, between the kernels before and after it. A
//! plan is made, and its result compared with ours, when a shape is computed for the first time on a
//! GPU; a shape without a plan, or with a different result, is ours from then on. The first of these
//! is warned of.

use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, mpsc};

use burn::tensor::DType;
use burn_cubecl::kernel::cast;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::future::block_on;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use cubecl::server::{Handle as Buffer, NativeStream};
use cubecl_runtime::runtime::Runtime;
use half::{bf16, f16};
use hearth_cudnn::{
    Axis, Convolution, Direction, Element, Epilogue, Error, Fallback, Handle, Layout, Operands, Options, Plan, Target,
    Tolerance, Workspace, agree, plan,
};

use super::Sum;
use crate::conv3d::geometry::Geometry;
use crate::convolutions::{Convolutions, NoVendor, vendor};
use crate::gpu::{each, element, empty, ordered};
use crate::tf32;

/// The most values of a result that are compared: half at its beginning, half at its end.
const COMPARED: usize = 1 << 22;

/// The alignment of tensors in bytes that plans are made for; CubeCL's own allocations have a larger one.
const ALIGNMENT: u64 = 16;

/// The GPU's device, the convolution, and whether f32 may be rounded to TF32.
type Key = (cubecl::device::DeviceId, Convolution, bool);

/// What is known about a convolution.
#[derive(Clone)]
enum Known {
    /// The library's result is right.
    Right(Arc<Plan>),
    /// The library does not compute it.
    Ours,
}

/// What is known about the convolutions of all GPUs, and their handles.
#[derive(Default)]
struct Vendor {
    handles: HashMap<cubecl::device::DeviceId, Result<Arc<Handle>, Fallback>>,
    known: HashMap<Key, Known>,
}

fn state() -> MutexGuard<'static, Vendor> {
    static STATE: LazyLock<Mutex<Vendor>> = LazyLock::new(Mutex::default);
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Computes a sum by the library, or by `ours` where the setting, the device, the shape or the
/// library's result demand it.
pub(super) fn computed(
    sum: Sum,
    reads: [CubeTensor; 2],
    bias: Option<CubeTensor>,
    g: &Geometry,
    ours: impl Fn([CubeTensor; 2], Option<CubeTensor>) -> CubeTensor,
) -> CubeTensor {
    let suits = Convolutions::get() != Convolutions::Own && is_cuda(&reads[0].client);
    let Some(mut convolution) = suits.then(|| described(sum, &reads[0], g)).flatten() else {
        return ours(reads, bias);
    };
    convolution.epilogue = bias.as_ref().map(|_| Epilogue { bias: true, activation: None });
    let reads = ordered(reads);
    if !reads.iter().all(is_aligned) {
        return ours(reads, bias);
    }
    let key = (reads[0].client.service_id().device, convolution, tf32::is_allowed());
    let known = state().known.get(&key).cloned();
    let result = match known {
        Some(Known::Ours) => None,
        Some(Known::Right(plan)) => queued(&plan, sum, &reads, bias.as_ref(), g).ok(),
        None => first(key, sum, &reads, bias.as_ref(), g, &ours),
    };
    result.unwrap_or_else(|| ours(reads, bias))
}

/// The result of a shape that was never computed on this GPU.
fn first(
    key: Key,
    sum: Sum,
    reads: &[CubeTensor; 2],
    bias: Option<&CubeTensor>,
    g: &Geometry,
    ours: &impl Fn([CubeTensor; 2], Option<CubeTensor>) -> CubeTensor,
) -> Option<CubeTensor> {
    let tried = planned(&reads[0].client, &key).and_then(|plan| {
        let theirs = queued(&plan, sum, reads, bias, g)?;
        compare(&ours(reads.clone(), bias.cloned()), &theirs, &key, sum, g)?;
        Ok((plan, theirs))
    });
    let (known, result) = match tried {
        Ok((plan, theirs)) => (Known::Right(plan), Some(theirs)),
        Err(why) => {
            warn(&key.1, &why);
            (Known::Ours, None)
        }
    };
    state().known.insert(key, known);
    result
}

/// Says why a convolution is ours: the first time to the user.
fn warn(convolution: &Convolution, why: &Fallback) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if WARNED.swap(true, Ordering::Relaxed) {
        tracing::debug!("our kernels compute {convolution}: {why}");
    } else {
        tracing::warn!("our kernels compute some convolutions; the first is {convolution}: {why}");
    }
}

/// Whether the library can read a tensor: a part of another one may begin anywhere.
fn is_aligned(tensor: &CubeTensor) -> bool {
    tensor.handle.offset_start.unwrap_or(0).is_multiple_of(ALIGNMENT)
}

fn is_cuda(client: &Client) -> bool {
    client.service_id().service == TypeId::of::<<cubecl::cuda::CudaRuntime as Runtime>::Server>()
}

/// The library's description; `None` of a type that it does not compute in, and of a transposed
/// convolution whose output no convolution reads whole.
fn described(sum: Sum, beside: &CubeTensor, g: &Geometry) -> Option<Convolution> {
    let element = match beside.dtype {
        DType::F32 => Element::F32,
        DType::BF16 => Element::Bf16,
        DType::F16 => Element::F16,
        _ => return None,
    };
    let axis = |i: usize| Axis {
        size: g.input[i],
        kernel: g.kernel[i],
        stride: g.stride[i],
        padding: g.padding[i],
        dilation: g.dilation[i],
    };
    // Two axes, where the third is that of a plane.
    let flat = (g.input[2], g.output[2], g.kernel[2], g.stride[2], g.padding[2]) == (1, 1, 1, 1, 0);
    let axes: Vec<Axis> = (0..if flat { 2 } else { 3 }).map(axis).collect();
    let [channels_in, channels_out] = g.channels();
    let convolution = Convolution {
        direction: match sum {
            Sum::Correlate => Direction::Forward,
            Sum::Spread => Direction::DataGradient,
            Sum::Weights => Direction::FilterGradient,
        },
        batch: g.batch,
        channels_in,
        channels_out,
        axes,
        groups: g.groups,
        layout: Layout::ChannelsFirst,
        element,
        epilogue: None,
    };
    let output = convolution.output_sizes().ok()?;
    output.iter().zip(&g.output).all(|(one, other)| one == other).then_some(convolution)
}

/// Runs a function in the thread in which the GPU is current.
fn there<T: Send + 'static>(
    client: &Client,
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Fallback> {
    let (to, from) = mpsc::channel();
    let sent = client.native(&[], &[], move |_| {
        // The receiver waits below.
        let _ = to.send(call());
        Ok(())
    });
    // Work waits in this thread until more is queued.
    let ran = sent.and_then(|()| client.flush());
    ran.map_err(|why| Fallback::NotRun(why.to_string()))?;
    Ok(from.recv().map_err(|_| Fallback::NotRun("the GPU's stream cannot be used".to_owned()))??)
}

fn unusable(why: NoVendor) -> Fallback {
    match why {
        NoVendor::Library(error) => error.into(),
        NoVendor::NotBuilt => Fallback::NotRun(why.to_string()),
    }
}

/// The library's plan.
fn planned(client: &Client, (device, convolution, tf32): &Key) -> Result<Arc<Plan>, Fallback> {
    let known = state().handles.get(device).cloned();
    let handle = match known {
        Some(handle) => handle?,
        None => {
            let name = format!("{} {}", client.name(), device.index_id);
            let library = vendor().map_err(unusable)?.clone();
            let made = there(client, move || Handle::create(&library, name));
            state().handles.insert(*device, made.clone());
            made?
        }
    };
    // Where no engine adds the bias, it is added afterwards.
    let alone = Convolution { epilogue: None, ..convolution.clone() };
    let fused = convolution.epilogue.is_some().then(|| convolution.clone());
    let tf32 = *tf32;
    let made = move || {
        let (target, options) = (Target::Gpu(handle), Options { tf32, ..Options::default() });
        let fused = fused.map(|convolution| plan(&target, &convolution, &options));
        match fused {
            None | Some(Err(Error::NoPlan { .. })) => plan(&target, &alone, &options),
            Some(other) => other,
        }
    };
    there(client, made).map(Arc::new)
}

/// The shape of the result.
fn shape(sum: Sum, g: &Geometry) -> [usize; 5] {
    let [channels_in, channels_out] = g.channels();
    match sum {
        Sum::Correlate => [g.batch, channels_out, g.output[0], g.output[1], g.output[2]],
        Sum::Spread => [g.batch, channels_in, g.input[0], g.input[1], g.input[2]],
        Sum::Weights => [channels_out, g.channels_in, g.kernel[0], g.kernel[1], g.kernel[2]],
    }
}

/// Queues the library's work; returns its result, which may not be complete yet.
fn queued(
    plan: &Arc<Plan>,
    sum: Sum,
    reads: &[CubeTensor; 2],
    bias: Option<&CubeTensor>,
    g: &Geometry,
) -> Result<CubeTensor, Fallback> {
    let client = &reads[0].client;
    let result = empty(&reads[0], shape(sum, g), reads[0].dtype);
    // The library adds a bias of the type of the other tensors.
    let fused = plan.convolution().epilogue.and(bias);
    let fused = fused.map(|bias| ordered([cast(bias.clone(), result.dtype)])[0].handle.clone());
    let workspace: Option<Buffer> = (plan.workspace_bytes() > 0).then(|| client.empty(plan.workspace_bytes() as usize));
    let has_bias = fused.is_some();
    let buffers: Vec<Buffer> = reads.iter().map(|tensor| tensor.handle.clone()).chain(fused).collect();
    let writes: Vec<Buffer> = [result.handle.clone()].into_iter().chain(workspace).collect();
    let plan = plan.clone();
    let work = move |stream: NativeStream<'_>| {
        let mut addresses = stream.addresses.iter().map(|at| *at as *mut c_void);
        let mut next = || addresses.next().unwrap_or(std::ptr::null_mut());
        let [first, second] = [next(), next()];
        let bias = has_bias.then(&mut next);
        let result = next();
        let operands = match sum {
            Sum::Correlate => Operands { input: first, filter: second, output: result, bias },
            Sum::Spread => Operands { output: first, filter: second, input: result, bias },
            Sum::Weights => Operands { input: first, output: second, filter: result, bias },
        };
        let workspace = Workspace { address: next(), bytes: plan.workspace_bytes() };
        // SAFETY: CubeCL calls this in the thread in which the plan's GPU is current, with its stream. The
        // tensors are contiguous, of the shapes and the type that the plan was made for; the result and
        // the workspace were allocated for this call. The server keeps the memory until work that is
        // queued later on the stream may reuse it, and makes other streams wait for the result.
        let ran = unsafe { plan.execute(stream.stream, &operands, workspace) };
        ran.map_err(|why| format!("{}: {why}; --convolutions own computes it without cuDNN", plan.convolution()))
    };
    let biased = if has_bias { None } else { bias.cloned() };
    let sent = client.native(&buffers, &writes, work);
    sent.map_err(|why| Fallback::NotRun(why.to_string()))?;
    Ok(add_bias(result, biased))
}

/// The values at the beginning and at the end of a tensor.
fn sample(tensor: &CubeTensor) -> Result<Vec<f32>, Fallback> {
    let bytes = tensor.dtype.size();
    let total = tensor.meta.num_elements();
    let (handle, skipped) = (&tensor.handle, total.saturating_sub(COMPARED));
    let half = COMPARED / 2;
    let parts = match skipped {
        0 => vec![handle.clone()],
        _ => vec![
            handle.clone().offset_end(((total - half) * bytes) as u64),
            handle.clone().offset_start(((total - half) * bytes) as u64),
        ],
    };
    let mut values = Vec::new();
    for part in parts {
        let read = tensor.client.read_one(part).map_err(|why| Fallback::NotRun(why.to_string()))?;
        match tensor.dtype {
            DType::F32 => values.extend(read.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            DType::BF16 => values.extend(read.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())),
            _ => values.extend(read.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())),
        }
    }
    Ok(values)
}

/// Compares the library's result with ours.
fn compare(
    ours: &CubeTensor,
    theirs: &CubeTensor,
    (_, convolution, tf32): &Key,
    sum: Sum,
    g: &Geometry,
) -> Result<(), Fallback> {
    block_on(theirs.client.sync_buffers([&theirs.handle])).map_err(|why| Fallback::NotRun(why.to_string()))?;
    let [ours, theirs] = [ours, theirs].map(sample);
    let products = match sum {
        Sum::Correlate => g.channels_in * g.taps(),
        Sum::Spread => g.channels_out * g.taps(),
        Sum::Weights => g.batch * g.output.iter().product::<usize>(),
    };
    let tolerance = Tolerance::of(convolution.element, *tf32, products);
    agree(&ours?, &theirs?, tolerance)
        .map_err(|disagreement| Fallback::Wrong { convolution: convolution.to_string(), disagreement })
}

/// Adds the bias of each channel of `[B, C, X, Y, Z]`, in place.
fn add_bias(result: CubeTensor, bias: Option<CubeTensor>) -> CubeTensor {
    let Some(bias) = bias else { return result };
    let [bias] = ordered([bias]);
    let sizes = result.meta.shape();
    let (channels, volume) = (sizes[1], sizes[2] * sizes[3] * sizes[4]);
    let (count, dim) = each(&result.client, result.meta.num_elements());
    let (of, of_bias) = (element(&result), element(&bias));
    let (offset, to) = (bias.into_tensor_arg(), result.clone().into_tensor_arg());
    bias_kernel::launch(&result.client, count, dim, offset, to, volume as u32, channels as u32, of, of_bias);
    result
}

/// Adds the bias of a channel to its values.
#[cube(launch)]
fn bias_kernel<F: Float, B: Float>(
    bias: &Tensor<B>,
    out: &mut Tensor<F>,
    volume: u32,
    channels: u32,
    #[define(F)] _of: ElemType,
    #[define(B)] _of_bias: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < out.len() {
        let channel = at / volume as usize % channels as usize;
        out[at] = F::cast_from(f32::cast_from(out[at]) + f32::cast_from(bias[channel]));
    }
}
