//! A list of named modules, as in `torch.nn.Sequential`.

use burn::module::{Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor};
use burn::tensor::Device;

/// Modules in order, each with its name in a state dict.
#[derive(Clone, Debug)]
pub struct Named<M>(Vec<(String, M)>);

impl<M> Named<M> {
    /// Creates the list.
    pub fn new(modules: Vec<(String, M)>) -> Self {
        Named(modules)
    }

    /// Creates a list of modules named by their index: `"0"`, `"1"`, ...
    pub fn numbered(modules: impl IntoIterator<Item = M>) -> Self {
        let mut all = Vec::new();
        // Built one by one: if the number is absurd, the first modules report that there are too
        // many.
        for (i, module) in modules.into_iter().enumerate() {
            all.push((i.to_string(), module));
        }
        Named(all)
    }

    /// Iterates over the modules in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &M> {
        self.0.iter().map(|(_, module)| module)
    }

    /// The number of modules.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no modules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn each(self, mut apply: impl FnMut(M) -> M) -> Self {
        Named(self.0.into_iter().map(|(name, module)| (name, apply(module))).collect())
    }
}

impl<M: Module> Module for Named<M> {
    fn collect_devices(&self, devices: Devices) -> Devices {
        self.iter().fold(devices, |devices, module| module.collect_devices(devices))
    }

    fn fork(self, device: &Device) -> Self {
        self.each(|module| module.fork(device))
    }

    fn to_device(self, device: &Device) -> Self {
        self.each(|module| module.to_device(device))
    }

    fn train(self) -> Self {
        self.each(Module::train)
    }

    fn valid(&self) -> Self {
        Named(self.0.iter().map(|(name, module)| (name.clone(), module.valid())).collect())
    }

    fn materialize(self) -> Self {
        self.each(Module::materialize)
    }

    fn visit<V: ModuleVisitor>(&self, visitor: &mut V) {
        for (name, module) in &self.0 {
            visitor.enter_module(name, "Named");
            module.visit(visitor);
            visitor.exit_module(name, "Named");
        }
    }

    fn map<P: ModuleMapper>(self, mapper: &mut P) -> Self {
        let modules = self.0.into_iter().map(|(name, module)| {
            mapper.enter_module(&name, "Named");
            let module = module.map(mapper);
            mapper.exit_module(&name, "Named");
            (name, module)
        });
        Named(modules.collect())
    }
}

impl<M: Module> ModuleDisplayDefault for Named<M> {
    fn content(&self, content: Content) -> Option<Content> {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        content.add_formatted(&names.join(", ")).optional()
    }
}

impl<M: Module> ModuleDisplay for Named<M> {}

/// The dotted path of the visited parameter, as in the state dict.
///
/// Excludes the variant names that Burn reports for enums.
#[derive(Debug, Default)]
pub(crate) struct PathStack(Vec<String>);

impl PathStack {
    pub(crate) fn enter(&mut self, name: &str, container: &str) {
        if !container.starts_with("Enum:") {
            self.0.push(name.to_owned());
        }
    }

    pub(crate) fn exit(&mut self, container: &str) {
        if !container.starts_with("Enum:") {
            self.0.pop();
        }
    }

    pub(crate) fn path(&self) -> String {
        self.0.join(".")
    }
}
