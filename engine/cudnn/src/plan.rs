//! Planning: which engine of the library computes a convolution: [`plan`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::convolution::{Convolution, Element};
use crate::error::{Error, Refused, Why};
use crate::gpu::GpuDescription;
use crate::graph::graph;
use crate::numbers::{HeuristicMode, NumericalNote, attribute as of, kind};
use crate::raw::{Builder, Descriptor, Handle, Library};

/// What an engine may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether each run must have the same result. By default yes.
    pub deterministic: bool,
    /// Whether f32 may be rounded to TF32 (10 bits) for tensor cores. By default no.
    pub tf32: bool,
    /// The most bytes of workspace. By default 640 MiB: with the channels first, engines need up to
    /// 575 MiB for 32 channels of 128^3 voxels.
    pub workspace_limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { deterministic: true, tf32: false, workspace_limit: 640 << 20 }
    }
}

/// A number that no handle or description has had in this process.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What is planned for: a GPU, or the description of one.
#[derive(Clone, Debug)]
pub enum Target {
    /// A GPU. Its plans can be executed.
    Gpu(Arc<Handle>),
    /// The description of a GPU, of [`Target::described`].
    Described(Arc<Described>),
}

/// The description of a GPU, as the library has read it.
#[derive(Debug)]
pub struct Described {
    library: Arc<Library>,
    name: String,
    id: u64,
    properties: Arc<Descriptor>,
}

impl Target {
    /// A target for planning without a GPU.
    ///
    /// # Errors
    /// If the library refuses the description.
    pub fn described(library: &Arc<Library>, gpu: &GpuDescription) -> Result<Self, Error> {
        let properties = Builder::new(library, kind::DEVICEPROP)?
            .set(of::DEVICEPROP_JSON_REPRESENTATION, gpu.to_json().as_bytes())?
            .finalize()?;
        let (library, name) = (library.clone(), gpu.name.clone());
        Ok(Target::Described(Arc::new(Described { library, name, id: next_id(), properties })))
    }

    /// The name of the GPU.
    pub fn gpu(&self) -> &str {
        match self {
            Target::Gpu(handle) => handle.gpu(),
            Target::Described(described) => &described.name,
        }
    }

    /// A number that no other target has in this process.
    pub(crate) fn id(&self) -> u64 {
        match self {
            Target::Gpu(handle) => handle.id(),
            Target::Described(described) => described.id,
        }
    }

    fn library(&self) -> &Arc<Library> {
        match self {
            Target::Gpu(handle) => handle.library(),
            Target::Described(described) => &described.library,
        }
    }

    fn handle(&self) -> Option<&Arc<Handle>> {
        match self {
            Target::Gpu(handle) => Some(handle),
            Target::Described(_) => None,
        }
    }

    fn properties(&self) -> Option<&Arc<Descriptor>> {
        match self {
            Target::Gpu(_) => None,
            Target::Described(described) => Some(&described.properties),
        }
    }

    /// Keeps other threads from using the handle, where there is one.
    fn in_use(&self) -> Option<MutexGuard<'_, ()>> {
        self.handle().map(|handle| handle.in_use())
    }
}

/// An engine that the library has prepared for a convolution.
#[derive(Debug)]
pub struct Plan {
    pub(crate) descriptor: Arc<Descriptor>,
    pub(crate) target: Target,
    pub(crate) convolution: Convolution,
    engine: i64,
    tensor_cores: bool,
    workspace: u64,
    refused: Vec<Refused>,
}

impl Plan {
    /// The convolution that it computes.
    pub fn convolution(&self) -> &Convolution {
        &self.convolution
    }

    /// The engine's number in the library.
    pub fn engine(&self) -> i64 {
        self.engine
    }

    /// Whether the engine computes on tensor cores.
    pub fn tensor_cores(&self) -> bool {
        self.tensor_cores
    }

    /// The bytes of workspace that an execution needs.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace
    }

    /// The engines that were proposed before this one.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }
}

/// The ways in which engines are proposed, in the order in which they are asked.
const MODES: [HeuristicMode; 3] = [HeuristicMode::A, HeuristicMode::B, HeuristicMode::FALLBACK];
/// The most numerical notes of an engine.
const NOTES: usize = 16;

/// Prepares the first engine that the library proposes for a convolution and that suits the options.
///
/// # Errors
/// [`Error::NoPlan`] if no engine suits, with the reasons; [`Error::Invalid`] if the numbers of the
/// convolution contradict each other; [`Error::Call`] if the library reports another error.
pub fn plan(target: &Target, convolution: &Convolution, options: &Options) -> Result<Plan, Error> {
    let _in_use = target.in_use();
    let none =
        |refused| Error::NoPlan { gpu: target.gpu().to_owned(), convolution: Box::new(convolution.clone()), refused };
    let graph = match graph(target.library(), convolution, target.handle()) {
        Ok(graph) => graph,
        Err(error) => {
            let refused = |why| none(vec![Refused { engine: None, why }]);
            return Err(error.unsupported().map_or(error, refused));
        }
    };
    let mut refused = Vec::new();
    for mode in MODES {
        let proposed = match proposed(target, &graph, mode) {
            Ok(proposed) => proposed,
            Err(error) => match error.unsupported() {
                Some(why) => {
                    refused.push(Refused { engine: None, why });
                    continue;
                }
                None => return Err(error),
            },
        };
        for config in proposed {
            let engine = Engine::of(&config)?;
            match engine.prepare(target, convolution, options)? {
                Ok((descriptor, workspace)) => {
                    let (target, convolution) = (target.clone(), convolution.clone());
                    let tensor_cores = engine.notes.contains(&NumericalNote::TENSOR_CORE);
                    let engine = engine.number;
                    return Ok(Plan { descriptor, target, convolution, engine, tensor_cores, workspace, refused });
                }
                Err(why) => refused.push(Refused { engine: Some(engine.number), why }),
            }
        }
    }
    Err(none(refused))
}

/// The configurations of engines that the library proposes, the fastest first.
fn proposed(target: &Target, graph: &Arc<Descriptor>, mode: HeuristicMode) -> Result<Vec<Arc<Descriptor>>, Error> {
    let mut asked = Builder::new(target.library(), kind::ENGINEHEUR)?
        .set_descriptors(of::ENGINEHEUR_OPERATION_GRAPH, &[graph])?
        .set(of::ENGINEHEUR_MODE, &[mode])?;
    if let Some(properties) = target.properties() {
        asked = asked.set_descriptors(of::ENGINEHEUR_DEVICEPROP, &[properties])?;
    }
    let asked = asked.finalize()?;
    let count = asked.count(of::ENGINEHEUR_RESULTS)?;
    asked.get_descriptors(of::ENGINEHEUR_RESULTS, kind::ENGINECFG, count)
}

/// A proposed engine.
struct Engine<'a> {
    config: &'a Arc<Descriptor>,
    number: i64,
    notes: Vec<NumericalNote>,
}

impl<'a> Engine<'a> {
    fn of(config: &'a Arc<Descriptor>) -> Result<Self, Error> {
        let engines = config.get_descriptors(of::ENGINECFG_ENGINE, kind::ENGINE, 1)?;
        let missing = || Error::Unexpected {
            function: "planning",
            of: of::ENGINECFG_ENGINE.name,
            got: "no value".to_owned(),
            expected: "one value",
        };
        let engine = engines.first().ok_or_else(missing)?;
        let number = engine.get_one(of::ENGINE_GLOBAL_INDEX)?;
        Ok(Engine { config, number, notes: engine.get(of::ENGINE_NUMERICAL_NOTE, NOTES)? })
    }

    /// The reason why the engine does not suit, by its notes.
    fn unsuited(&self, convolution: &Convolution, options: &Options) -> Option<Why> {
        let has = |note| self.notes.contains(&note);
        let exact = convolution.element == Element::F32 && !options.tf32;
        if options.deterministic && has(NumericalNote::NONDETERMINISTIC) {
            Some(Why::Nondeterministic)
        } else if has(NumericalNote::REDUCED_PRECISION_REDUCTION)
            || exact && (has(NumericalNote::TENSOR_CORE) || has(NumericalNote::DOWN_CONVERT_INPUTS))
        {
            Some(Why::ReducedPrecision)
        } else {
            None
        }
    }

    /// The finalized plan and its workspace, or the reason why the engine is not taken.
    fn prepare(
        &self,
        target: &Target,
        convolution: &Convolution,
        options: &Options,
    ) -> Result<Result<(Arc<Descriptor>, u64), Why>, Error> {
        if let Some(why) = self.unsuited(convolution, options) {
            return Ok(Err(why));
        }
        let mut built = Builder::new(target.library(), kind::EXECUTION_PLAN)?
            .set_descriptors(of::EXECUTION_PLAN_ENGINE_CONFIG, &[self.config])?;
        if let Some(handle) = target.handle() {
            built = built.set_handle(of::EXECUTION_PLAN_HANDLE, handle)?;
        }
        if let Some(properties) = target.properties() {
            built = built.set_descriptors(of::EXECUTION_PLAN_DEVICEPROP, &[properties])?;
        }
        let plan = match built.finalize() {
            Ok(plan) => plan,
            // Another engine may work, whatever the reason is.
            Err(Error::Call { status, text, .. }) => return Ok(Err(Why::Failed { status, text })),
            Err(error) => return Err(error),
        };
        let bytes = plan.get_one(of::EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let negative = |_| Error::Unexpected {
            function: "planning",
            of: of::EXECUTION_PLAN_WORKSPACE_SIZE.name,
            got: bytes.to_string(),
            expected: "a size",
        };
        let bytes = u64::try_from(bytes).map_err(negative)?;
        if bytes > options.workspace_limit {
            return Ok(Err(Why::Workspace { bytes }));
        }
        Ok(Ok((plan, bytes)))
    }
}
