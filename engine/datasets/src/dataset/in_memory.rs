//! A case kept in memory: [`Kept`], and the [`CachePool`] in which data sets share them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use burn::tensor::{Device, FloatDType, Tensor};
use hearth_image::TransformError;
use hearth_kernels::host;
use hearth_transforms::{BoxSource, Sample, StoredImage, Value};

use super::entry::{Entry, MemoryBytes, Storage, encode};
use crate::DataError;

/// The samples of a case after the cached steps.
#[derive(Debug)]
pub(crate) struct Kept {
    samples: Vec<Sample>,
    bytes: usize,
}

impl Kept {
    /// Packs samples by `storage` and moves images to `device` (by default they stay where the
    /// pipeline left them).
    pub fn new(samples: Vec<Sample>, storage: Storage, device: Option<&Device>) -> Result<Self, DataError> {
        let case = samples.first().map(|s| s.case.clone()).unwrap_or_default();
        let samples = match storage {
            Storage::F32 => on_device(samples, device, |image| image),
            _ if device.is_none_or(host::is_host) => return Self::packed(samples, storage, device, &case),
            // Packed chunks exist only on the host; other devices hold whole tensors of a narrower
            // type.
            Storage::Exact => return Err(no_exact_on_device()),
            Storage::F16 => on_device(samples, device, |data| data.cast(FloatDType::F16)),
        };
        let bytes = samples.iter().map(Sample::bytes).sum();
        Ok(Kept { samples, bytes })
    }

    fn packed(samples: Vec<Sample>, storage: Storage, device: Option<&Device>, case: &str) -> Result<Self, DataError> {
        let wrong = |what: String| DataError::Cache(format!("case {case} can't be cached: {what}"));
        let places: Vec<BTreeMap<String, Device>> = samples.iter().map(|s| devices(s, device)).collect();
        let bytes = encode(&samples, [0; 32], storage).map_err(wrong)?;
        drop(samples);
        let length = bytes.len() as u64;
        let entry = Entry::open(Box::new(MemoryBytes::new(bytes)), length, &[0; 32], case.to_owned())
            .map_err(|e| wrong(e.to_string()))?;
        let place = |sample: usize, key: &str| {
            places.get(sample).and_then(|p| p.get(key)).cloned().unwrap_or_else(hearth_image::host_device)
        };
        Ok(Kept { samples: entry.samples(place), bytes: entry.held() })
    }

    /// Returns the samples; tensors are shared until a step changes one.
    pub fn samples(&self) -> Vec<Sample> {
        self.samples.clone()
    }

    /// The number of bytes of memory in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

pub(super) fn no_exact_on_device() -> DataError {
    DataError::Option("storage `exact` is for a cache in host memory; on another device use `f32` or `f16`".to_owned())
}

fn devices(sample: &Sample, device: Option<&Device>) -> BTreeMap<String, Device> {
    let of = |value: &Value| match value {
        Value::Image(image) => Some(device.cloned().unwrap_or_else(|| image.data.device())),
        _ => None,
    };
    sample.values.iter().filter_map(|(key, value)| Some((key.clone(), of(value)?))).collect()
}

fn on_device(
    mut samples: Vec<Sample>,
    device: Option<&Device>,
    narrow: impl Fn(Tensor<4>) -> Tensor<4>,
) -> Vec<Sample> {
    for value in samples.iter_mut().flat_map(|s| s.values.values_mut()) {
        if let Value::Image(image) = value {
            let mut image = image.clone();
            if let Some(device) = device {
                image = image.to_device(device);
            }
            let dims = image.data.dims();
            let data = narrow(image.data);
            *value = if data.dtype() == burn::tensor::DType::F32 {
                Value::Image(hearth_image::Image { data, affine: image.affine, meta: image.meta })
            } else {
                Value::Stored(StoredImage::new(Arc::new(Narrow(data)), dims, image.affine, image.meta))
            };
        }
    }
    samples
}

/// A tensor of a narrower type, on any device.
#[derive(Debug)]
struct Narrow(Tensor<4>);

impl BoxSource for Narrow {
    fn read_box(&self, start: [usize; 3], end: [usize; 3]) -> Result<Tensor<4>, TransformError> {
        let channels = self.0.dims()[0];
        let part = self.0.clone().slice([0..channels, start[0]..end[0], start[1]..end[1], start[2]..end[2]]);
        Ok(part.cast(FloatDType::F32))
    }

    fn bytes(&self) -> usize {
        self.0.dims().iter().product::<usize>() * self.0.dtype().size()
    }
}

/// The slot of one case; filled once, even with concurrent requests.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    kept: OnceLock<Kept>,
    making: Mutex<()>,
}

impl Slot {
    pub fn get(&self) -> Option<&Kept> {
        self.kept.get()
    }

    /// Returns the existing value, or the result of `make`; `None` if that is not to be cached.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<Option<Kept>, E>) -> Result<Option<&Kept>, E> {
        if let Some(kept) = self.kept.get() {
            return Ok(Some(kept));
        }
        let _making = self.making.lock().unwrap_or_else(|p| p.into_inner());
        if self.kept.get().is_none() {
            let Some(kept) = make()? else { return Ok(None) };
            let _ = self.kept.set(kept);
        }
        Ok(self.kept.get())
    }
}

/// Cases that several caches share: the same files with the same deterministic steps, in the same
/// storage and on the same device. A case is dropped with the last data set that uses it.
///
/// For example, the folds of a cross-validation have separate data sets and a common pool.
#[derive(Clone, Debug, Default)]
pub struct CachePool(Arc<Mutex<HashMap<[u8; 32], Weak<Slot>>>>);

impl CachePool {
    /// Creates an empty pool.
    pub fn new() -> Self {
        CachePool::default()
    }

    /// The number of cases that any data set keeps.
    pub fn len(&self) -> usize {
        self.lock().values().filter(|slot| slot.upgrade().is_some_and(|s| s.get().is_some())).count()
    }

    /// Whether no case is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn slot(&self, key: [u8; 32]) -> Arc<Slot> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(&key).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Slot::default());
        slots.insert(key, Arc::downgrade(&slot));
        slot
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], Weak<Slot>>> {
        self.0.lock().unwrap_or_else(|p| p.into_inner())
    }
}
