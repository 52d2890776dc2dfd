//! A run: builds a trainer from a recipe, trains, evaluates and predicts.

mod adversarial;
mod as_dicom;
mod cases;
mod chosen;
mod dataset;
pub mod folders;
mod generate;
pub mod handlers;
pub mod inputs;
mod known_labels;
pub mod outputs;
mod passing;
pub mod penalty;
mod plan;
pub mod plugins;
mod record;
mod segment;
mod series;
mod session;
mod start;
mod summary;
mod vanished;
mod weights;

pub use adversarial::gan_trainer;
pub use as_dicom::{DicomFile, NO_REGIONS};
pub use cases::{Cases, list, wants};
pub use chosen::{Chosen, Rule};
pub use handlers::HandlerFailure;
pub use passing::PassProgress;
pub use penalty::{Empty, Penalties, measuring};
pub use plan::Plan;
pub use segment::{Segmented, Wanted};
pub use series::{FoundSeries, series_below};
pub use session::{Finished, Session, check_resume, evaluator, trainer};
pub use start::Start;
pub use weights::{Opening, Trained, checkpoint_file};
