//! Running statistics: values that a module stores and updates in its forward pass, without
//! gradients.
//!
//! Unlike in Burn's `RunningState`, a clone owns its value (training a clone does not change the
//! original) and an update is visible immediately, so a checkpoint after a step contains the values
//! of that step.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor, Param, ParamId,
};
use burn::tensor::{Device, Int, Tensor};
use hearth_kernels::scoped;

thread_local! {
    /// Whether clones made by this thread share their values.
    static SHARED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, in which a module that is cloned and mapped shares its running statistics with the
/// original.
pub(crate) fn shared<T>(work: impl FnOnce() -> T) -> T {
    scoped(&SHARED, true, work)
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value is replaced as a whole, so a panic elsewhere never leaves it half-written.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A one-dimensional tensor, `[n]`, that the forward pass may replace: a field of a module, which
/// state dicts and checkpoints include and optimizers skip.
#[derive(Debug)]
pub struct Buffer {
    id: ParamId,
    value: Arc<Mutex<Tensor<1>>>,
}

impl Buffer {
    /// Creates a buffer with this value, `[n]`.
    pub fn new(value: Tensor<1>) -> Self {
        Self::with_id(ParamId::new(), value)
    }

    fn with_id(id: ParamId, value: Tensor<1>) -> Self {
        Buffer { id, value: Arc::new(Mutex::new(value.without_autodiff())) }
    }

    /// The value, `[n]`, outside autodiff.
    pub fn value(&self) -> Tensor<1> {
        lock(&self.value).clone()
    }

    /// Replaces the value, `[n]`.
    pub fn set(&self, value: Tensor<1>) {
        *lock(&self.value) = value.without_autodiff();
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        if SHARED.get() {
            return Buffer { id: self.id, value: Arc::clone(&self.value) };
        }
        Self::with_id(self.id, self.value())
    }
}

impl Module for Buffer {
    fn collect_devices(&self, mut devices: Devices) -> Devices {
        let device = self.value().device();
        if !devices.contains(&device) {
            devices.push(device);
        }
        devices
    }

    fn fork(self, device: &Device) -> Self {
        self.to_device(device)
    }

    fn to_device(self, device: &Device) -> Self {
        Self::with_id(self.id, self.value().to_device(&device.clone().inner()))
    }

    fn train(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn materialize(self) -> Self {
        self
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_float(&Param::initialized(self.id, self.value().set_require_grad(false)));
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        if SHARED.get() {
            return self;
        }
        let mapped = mapper.map_float(Param::initialized(self.id, self.value().set_require_grad(false)));
        let (id, value, _) = mapped.consume();
        Self::with_id(id, value)
    }
}

impl core::fmt::Display for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({:?})", self.value().dims())
    }
}

impl ModuleDisplayDefault for Buffer {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.to_string()).optional()
    }
}

impl ModuleDisplay for Buffer {}

/// A number of calls, stored on the host and shown to visitors as an integer tensor `[1]`.
#[derive(Debug)]
pub struct Counter {
    id: ParamId,
    device: Device,
    count: Arc<Mutex<i64>>,
}

impl Counter {
    /// Creates a counter at 0. Visitors see it on the CPU, or on `device` in a build without a CPU
    /// backend.
    pub fn new(device: &Device) -> Self {
        Counter { id: ParamId::new(), device: device.clone().inner(), count: Arc::new(Mutex::new(0)) }
    }

    /// The count.
    pub fn get(&self) -> i64 {
        *lock(&self.count)
    }

    /// Counts one call.
    pub fn increment(&self) {
        *lock(&self.count) += 1;
    }

    fn param(&self) -> Param<Tensor<1, Int>> {
        Param::initialized(self.id, Tensor::from_data([self.get()], &Device::flex()))
    }
}

impl Clone for Counter {
    fn clone(&self) -> Self {
        if SHARED.get() {
            return Counter { id: self.id, device: self.device.clone(), count: Arc::clone(&self.count) };
        }
        Counter { id: self.id, device: self.device.clone(), count: Arc::new(Mutex::new(self.get())) }
    }
}

impl Module for Counter {
    fn collect_devices(&self, devices: Devices) -> Devices {
        devices
    }

    fn fork(self, device: &Device) -> Self {
        self.to_device(device)
    }

    fn to_device(self, device: &Device) -> Self {
        Counter { device: device.clone().inner(), ..self }
    }

    fn train(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn materialize(self) -> Self {
        self
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        visitor.visit_int(&self.param());
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        if SHARED.get() {
            return self;
        }
        let (id, value, _) = mapper.map_int(self.param()).consume();
        let count = value.into_data().iter::<i64>().next().unwrap_or_default();
        Counter { id, device: self.device, count: Arc::new(Mutex::new(count)) }
    }
}

impl core::fmt::Display for Counter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Counter({})", self.get())
    }
}

impl ModuleDisplayDefault for Counter {
    fn content(&self, content: Content) -> Option<Content> {
        content.add_formatted(&self.to_string()).optional()
    }
}

impl ModuleDisplay for Counter {}
