//! A run: builds a trainer from a recipe, trains, evaluates and predicts.

mod cases;
mod chosen;
mod dataset;
pub mod folders;
pub mod handlers;
pub mod inputs;
pub mod outputs;
mod plan;
pub mod plugins;
mod record;
mod segment;
mod session;
mod start;
mod summary;
mod weights;

pub use cases::{Cases, list, wants};
pub use chosen::{Chosen, Rule};
pub use handlers::HandlerFailure;
pub use plan::Plan;
pub use segment::Segmented;
pub use session::{Finished, Session, check_resume, evaluator, trainer};
pub use start::Start;
pub use weights::{Trained, checkpoint_file};
