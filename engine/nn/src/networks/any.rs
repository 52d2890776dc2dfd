//! [`AnyNetwork`]: a network whose type is known only at run time.

use std::any::Any;
use std::fmt;

use burn::module::{Devices, Flag, Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Bool, Device, Int, Tensor};

use super::{Network, ShapeError};

/// Any network: a network of this crate or a custom one.
///
/// Burn's modules have generic methods and cannot be trait objects. Here the parameters pass
/// through object-safe calls, for ranks 1 to 8. Paths of parameters are those of the inner network.
///
/// ```
/// # use burn::tensor::Device;
/// # use hearth_nn::networks::{AnyNetwork, Network, UNet, UNetConfig};
/// let net = AnyNetwork::new(UNetConfig::new(3, 1, 2, &[4, 8], &[2]).init(&Device::default(), 0)?);
/// assert_eq!((net.name(), net.channels()), ("UNet", [1, 2]));
/// assert!(net.downcast_ref::<UNet>().is_some());
/// # Ok::<(), hearth_nn::ConfigError>(())
/// ```
pub struct AnyNetwork(Box<dyn Dynamic>);

impl AnyNetwork {
    /// Wraps a network.
    pub fn new(network: impl Network) -> Self {
        Self(Box::new(network))
    }

    /// The inner network if it is of type `N`, for functions that only this type has, such as the
    /// decoder of an autoencoder.
    pub fn downcast_ref<N: Network>(&self) -> Option<&N> {
        self.0.as_any().downcast_ref()
    }
}

impl Clone for AnyNetwork {
    fn clone(&self) -> Self {
        Self(self.0.clone_boxed())
    }
}

impl fmt::Debug for AnyNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The object-safe form of a network.
trait Dynamic: Send + Sync + fmt::Debug {
    fn as_any(&self) -> &dyn Any;
    fn clone_boxed(&self) -> Box<dyn Dynamic>;
    fn devices_boxed(&self, devices: Devices) -> Devices;
    fn fork_boxed(self: Box<Self>, device: &Device) -> Box<dyn Dynamic>;
    fn to_device_boxed(self: Box<Self>, device: &Device) -> Box<dyn Dynamic>;
    fn train_boxed(self: Box<Self>) -> Box<dyn Dynamic>;
    fn valid_boxed(&self) -> Box<dyn Dynamic>;
    fn materialize_boxed(self: Box<Self>) -> Box<dyn Dynamic>;
    fn visit_with(&self, visitor: &mut dyn Visits);
    fn map_with(self: Box<Self>, mapper: &mut dyn Maps) -> Box<dyn Dynamic>;
    fn name(&self) -> &'static str;
    fn spatial_dims(&self) -> usize;
    fn channels(&self) -> [usize; 2];
    fn forward(&self, x: Tensor<5>) -> Tensor<5>;
    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>>;
    fn main_output(&self) -> usize;
    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>);
    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError>;
    fn torch_name(&self, path: &str) -> Option<String>;
    fn torch_aliases(&self, path: &str) -> Vec<String>;
    fn set_draw(&self, seed: u64, step: u64);
}

impl<N: Network> Dynamic for N {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn clone_boxed(&self) -> Box<dyn Dynamic> {
        Box::new(self.clone())
    }

    fn devices_boxed(&self, devices: Devices) -> Devices {
        self.collect_devices(devices)
    }

    fn fork_boxed(self: Box<Self>, device: &Device) -> Box<dyn Dynamic> {
        Box::new((*self).fork(device))
    }

    fn to_device_boxed(self: Box<Self>, device: &Device) -> Box<dyn Dynamic> {
        Box::new((*self).to_device(device))
    }

    fn train_boxed(self: Box<Self>) -> Box<dyn Dynamic> {
        Box::new((*self).train())
    }

    fn valid_boxed(&self) -> Box<dyn Dynamic> {
        Box::new(self.valid())
    }

    fn materialize_boxed(self: Box<Self>) -> Box<dyn Dynamic> {
        Box::new((*self).materialize())
    }

    fn visit_with(&self, visitor: &mut dyn Visits) {
        self.visit(&mut ByObject(visitor));
    }

    fn map_with(self: Box<Self>, mapper: &mut dyn Maps) -> Box<dyn Dynamic> {
        Box::new((*self).map(&mut ByObject(mapper)))
    }

    fn name(&self) -> &'static str {
        Network::name(self)
    }

    fn spatial_dims(&self) -> usize {
        Network::spatial_dims(self)
    }

    fn channels(&self) -> [usize; 2] {
        Network::channels(self)
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        Network::forward(self, x)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        Network::forward_all(self, x)
    }

    fn main_output(&self) -> usize {
        Network::main_output(self)
    }

    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
        Network::forward_with_loss(self, x)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        Network::check_input(self, shape)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        Network::torch_name(self, path)
    }

    fn torch_aliases(&self, path: &str) -> Vec<String> {
        Network::torch_aliases(self, path)
    }

    fn set_draw(&self, seed: u64, step: u64) {
        Network::set_draw(self, seed, step);
    }
}

impl Module for AnyNetwork {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.0.devices_boxed(devices)
    }

    fn fork(self, device: &Device) -> Self {
        Self(self.0.fork_boxed(device))
    }

    fn to_device(self, device: &Device) -> Self {
        Self(self.0.to_device_boxed(device))
    }

    fn train(self) -> Self {
        Self(self.0.train_boxed())
    }

    fn valid(&self) -> Self {
        Self(self.0.valid_boxed())
    }

    fn materialize(self) -> Self {
        Self(self.0.materialize_boxed())
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        self.0.visit_with(visitor);
    }

    fn map<M: ModuleMapper>(self, mapper: &mut M) -> Self {
        Self(self.0.map_with(mapper))
    }
}

impl Network for AnyNetwork {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn spatial_dims(&self) -> usize {
        self.0.spatial_dims()
    }

    fn channels(&self) -> [usize; 2] {
        self.0.channels()
    }

    fn forward(&self, x: Tensor<5>) -> Tensor<5> {
        self.0.forward(x)
    }

    fn forward_all(&self, x: Tensor<5>) -> Vec<Tensor<5>> {
        self.0.forward_all(x)
    }

    fn main_output(&self) -> usize {
        self.0.main_output()
    }

    fn forward_with_loss(&self, x: Tensor<5>) -> (Vec<Tensor<5>>, Option<Tensor<1>>) {
        self.0.forward_with_loss(x)
    }

    fn check_input(&self, shape: [usize; 5]) -> Result<(), ShapeError> {
        self.0.check_input(shape)
    }

    fn torch_name(&self, path: &str) -> Option<String> {
        self.0.torch_name(path)
    }

    fn torch_aliases(&self, path: &str) -> Vec<String> {
        self.0.torch_aliases(path)
    }

    fn set_draw(&self, seed: u64, step: u64) {
        self.0.set_draw(seed, step);
    }
}

/// A visitor as an object: parameters are passed as [`Any`], and their rank is recovered by
/// downcasting.
trait Visits {
    fn enter(&mut self, name: &str, container: &str);
    fn exit(&mut self, name: &str, container: &str);
    fn parameter(&mut self, parameter: &dyn Any);
}

/// A mapper as an object. A parameter is passed in an `Option`, taken out, and replaced by the
/// mapped one.
trait Maps {
    fn enter(&mut self, name: &str, container: &str);
    fn exit(&mut self, name: &str, container: &str);
    fn parameter(&mut self, parameter: &mut dyn Any);
}

/// Calls its first argument with each type of parameter, until one matches.
macro_rules! each_type {
    ($try:ident) => {
        each_type!($try: 1 2 3 4 5 6 7 8);
        $try!(visit_flag, map_flag, Param<Flag>);
    };
    ($try:ident: $($rank:literal)*) => { $(
        $try!(visit_float, map_float, Param<Tensor<$rank>>);
        $try!(visit_int, map_int, Param<Tensor<$rank, Int>>);
        $try!(visit_bool, map_bool, Param<Tensor<$rank, Bool>>);
    )* };
}

impl<V: ModuleVisitor> Visits for V {
    fn enter(&mut self, name: &str, container: &str) {
        self.enter_module(name, container);
    }

    fn exit(&mut self, name: &str, container: &str) {
        self.exit_module(name, container);
    }

    fn parameter(&mut self, parameter: &dyn Any) {
        macro_rules! visit {
            ($visit:ident, $map:ident, $type:ty) => {
                if let Some(parameter) = parameter.downcast_ref::<$type>() {
                    return self.$visit(parameter);
                }
            };
        }
        each_type!(visit);
    }
}

impl<M: ModuleMapper> Maps for M {
    fn enter(&mut self, name: &str, container: &str) {
        self.enter_module(name, container);
    }

    fn exit(&mut self, name: &str, container: &str) {
        self.exit_module(name, container);
    }

    fn parameter(&mut self, parameter: &mut dyn Any) {
        macro_rules! map {
            ($visit:ident, $map:ident, $type:ty) => {
                if let Some(place) = parameter.downcast_mut::<Option<$type>>() {
                    *place = place.take().map(|parameter| self.$map(parameter));
                    return;
                }
            };
        }
        each_type!(map);
    }
}

/// An adapter from an object to Burn's visitor and mapper traits.
struct ByObject<'a, T: ?Sized>(&'a mut T);

impl ModuleVisitor for ByObject<'_, dyn Visits + '_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.0.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.0.exit(name, container);
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        self.0.parameter(parameter);
    }

    fn visit_int<const D: usize>(&mut self, parameter: &Param<Tensor<D, Int>>) {
        self.0.parameter(parameter);
    }

    fn visit_bool<const D: usize>(&mut self, parameter: &Param<Tensor<D, Bool>>) {
        self.0.parameter(parameter);
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.0.parameter(flag);
    }
}

impl ByObject<'_, dyn Maps + '_> {
    /// The parameter is passed by value, because an in-place update needs exclusive ownership of
    /// the values.
    fn mapped<T: Any>(&mut self, parameter: T) -> T {
        let mut place = Some(parameter);
        self.0.parameter(&mut place);
        place.expect("a mapper puts a parameter back where it took it")
    }
}

impl ModuleMapper for ByObject<'_, dyn Maps + '_> {
    fn enter_module(&mut self, name: &str, container: &str) {
        self.0.enter(name, container);
    }

    fn exit_module(&mut self, name: &str, container: &str) {
        self.0.exit(name, container);
    }

    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.mapped(parameter)
    }

    fn map_int<const D: usize>(&mut self, parameter: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        self.mapped(parameter)
    }

    fn map_bool<const D: usize>(&mut self, parameter: Param<Tensor<D, Bool>>) -> Param<Tensor<D, Bool>> {
        self.mapped(parameter)
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        self.mapped(flag)
    }
}
