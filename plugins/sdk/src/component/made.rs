//! [`Made`]: a component of any kind, as the host calls it.

use std::path::{Path, PathBuf};

use hearth_engine::HandlerError;
use hearth_registry::component::Answer;
use hearth_registry::component::texts::{
    Abilities, Inversion, LayoutCall, LossAnswer, MapAnswer, MapCall, OrderAnswer, OrderCall, RateAnswer, RateCall,
    WriteAnswer, WriteCall,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    Array, Draw, Epoch, IDENTITY, Inferer, Layout, Loss, MapTransform, Metric, Network, Reader, Sampler, Schedule,
    Transform, Valued, Writer,
};

macro_rules! made {
    ($($(#[$doc:meta])+ $Kind:ident as $word:ident),+ $(,)?) => {
        /// A component that was built from its options.
        pub enum Made {
            $($(#[$doc])+ $Kind(Box<dyn $Kind>)),+
        }

        /// The kinds, under the words of [`export_components!`](crate::export_components!).
        #[doc(hidden)]
        pub mod kinds {
            $(pub mod $word {
                use crate::component::{ComponentKind, $Kind, Made};

                pub const KIND: ComponentKind = ComponentKind::$Kind;

                pub fn made<T: $Kind + 'static>(component: T) -> Made {
                    Made::$Kind(Box::new(component))
                }
            })+
        }
    };
}

made! {
    /// A transform.
    Transform as transform,
    /// A metric.
    Metric as metric,
    /// A reader.
    Reader as reader,
    /// A transform of several keys.
    MapTransform as map_transform,
    /// A loss.
    Loss as loss,
    /// A schedule.
    Schedule as schedule,
    /// An inferer.
    Inferer as inferer,
    /// A sampler.
    Sampler as sampler,
    /// A layout.
    Layout as layout,
    /// A writer.
    Writer as writer,
}

impl Made {
    /// The function that the host calls for the kinds `transform`, `metric` and `reader`.
    pub(crate) fn run(&self, inputs: &[Array<'_>], text: &str) -> Result<Vec<Array<'static>>, HandlerError> {
        Ok(match (self, inputs) {
            (Made::Transform(transform), [image, ..]) => vec![transform.apply(image.clone())?],
            (Made::Metric(metric), [pred, label, ..]) => {
                let row = metric.measure(pred.clone(), label.clone())?;
                vec![Array { shape: vec![row.len()], values: row.into(), affine: IDENTITY }]
            }
            (Made::Reader(reader), _) => vec![reader.read(Path::new(text))?],
            _ => return Err(HandlerError::new("the host passed too few arrays")),
        })
    }

    /// The operations of the other kinds.
    pub(crate) fn call(
        &self,
        operation: &str,
        inputs: &[Array<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, HandlerError> {
        match (self, operation, inputs) {
            (Made::MapTransform(step), "abilities", _) => {
                let (random, invertible) = (step.is_random(), step.is_invertible());
                said(&Abilities { random, invertible, ..Abilities::default() })
            }
            (Made::MapTransform(step), "apply", images) => {
                let MapCall { keys, draw } = read(text)?;
                let mapped = step.apply(images.to_vec(), &keys, Draw::new(draw.unwrap_or(0)))?;
                answer(mapped.images, &MapAnswer { state: mapped.state })
            }
            (Made::MapTransform(step), "invert", [image]) => {
                arrays(vec![step.invert(image.clone(), &read::<Inversion>(text)?)?])
            }
            (Made::Loss(loss), "loss", [pred, label]) => {
                let Valued { loss, gradient } = loss.loss(pred.clone(), label.clone())?;
                answer(vec![gradient], &LossAnswer { loss: (!loss.is_nan()).then_some(loss) })
            }
            (Made::Schedule(schedule), "rate", _) => {
                said(&RateAnswer { rate: schedule.rate(read::<RateCall>(text)?)? })
            }
            (Made::Inferer(inferer), "infer", [image]) => {
                let network = network.ok_or_else(|| HandlerError::new("the host passed no network"))?;
                arrays(vec![inferer.infer(image.clone(), network)?])
            }
            (Made::Sampler(sampler), "order", _) => {
                let OrderCall { cases, epoch, draw, losses } = read(text)?;
                let epoch = Epoch { cases: &cases, number: epoch, losses: &losses };
                said(&OrderAnswer { order: sampler.order(&epoch, Draw::new(draw))? })
            }
            (Made::Layout(layout), "cases", _) => said(&layout.cases(Path::new(&read::<LayoutCall>(text)?.folder))?),
            (Made::Writer(writer), "abilities", _) => {
                said(&Abilities { endings: writer.endings(), sides: writer.sides(), ..Abilities::default() })
            }
            (Made::Writer(writer), "write", [image]) => {
                let WriteCall { path, case } = read(text)?;
                let files = writer.write(image.clone(), Path::new(&path), &case)?;
                said(&WriteAnswer { files: files.into_iter().map(unicode).collect::<Result<_, _>>()? })
            }
            _ => Err(HandlerError::new(format!("the operation `{operation}` with {} arrays is unknown", inputs.len()))),
        }
    }
}

fn unicode(path: PathBuf) -> Result<String, HandlerError> {
    let why = |path| HandlerError::new(format!("{path:?} is not Unicode, and cannot be passed to the program"));
    path.into_os_string().into_string().map_err(why)
}

/// The text of an operation.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, HandlerError> {
    serde_json::from_str(text).map_err(|error| HandlerError::new(format!("the host passed {text:?}: {error}")))
}

fn answer(arrays: Vec<Array<'static>>, text: &impl Serialize) -> Result<Answer, HandlerError> {
    let text = serde_json::to_string(text).map_err(|error| HandlerError::new(error.to_string()))?;
    Ok(Answer { arrays, text })
}

fn said(text: &impl Serialize) -> Result<Answer, HandlerError> {
    answer(Vec::new(), text)
}

fn arrays(arrays: Vec<Array<'static>>) -> Result<Answer, HandlerError> {
    Ok(Answer { arrays, text: String::new() })
}
