//! A run: how a trainer is put together from a recipe, and what becomes of it.

mod cases;
mod chosen;
mod dataset;
mod dry;
pub mod folders;
mod handlers;
pub mod interrupt;
pub mod outputs;
mod plan;
mod plugins;
mod record;
mod segment;
mod session;
mod start;
mod summary;
mod weights;

pub use cases::Cases;
pub use chosen::{Chosen, Rule};
pub use dry::dry_run;
pub use plan::Plan;
pub use segment::Segmented;
pub use session::{Session, check_resume, evaluator, trainer};
pub use start::Start;
pub use weights::{Trained, TtaWord, checkpoint_file};
