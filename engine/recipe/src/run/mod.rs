//! A run: builds a trainer from a recipe, trains, evaluates and predicts.

mod adversarial;
mod cases;
mod chosen;
mod dataset;
pub mod folders;
mod generate;
pub mod handlers;
pub mod inputs;
pub mod outputs;
mod passing;
pub mod penalty;
mod plan;
pub mod plugins;
mod record;
mod segment;
mod session;
mod slide_map;
mod start;
mod summary;
mod vanished;
mod weights;

pub use adversarial::gan_trainer;
pub use cases::{Cases, list, wants};
pub use chosen::{Chosen, Rule};
pub use handlers::HandlerFailure;
pub use passing::PassProgress;
pub use penalty::{Empty, Penalties, measuring};
pub use plan::Plan;
pub use segment::Segmented;
pub use session::{Finished, Session, check_resume, evaluator, trainer};
pub use slide_map::{SlideMap, Tiles, npy};
pub use start::Start;
pub use weights::{Opening, Trained, checkpoint_file};
