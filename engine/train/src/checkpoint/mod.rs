//! Checkpoint folders, written so that a crash at any moment leaves the earlier ones intact.
//!
//! A checkpoint is a folder, `epoch=0007-iteration=000123-best`:
//!
//! | file | what it holds |
//! |---|---|
//! | `network.safetensors` | weights under PyTorch's names; MONAI loads it with `load_state_dict` |
//! | `optimizer.safetensors`, `optimizer.json` | moments by parameter path; kind, learning rate |
//! | `gradients.safetensors` | with accumulation: the gradients of batches that made no step yet |
//! | `scaler.json` | the gradient scaler of a run in fp16 |
//! | `mean_loss.json`, `losses.json` | the sums of the epoch's losses so far |
//! | `train_metrics.json` | within an epoch: the rows of metrics of training batches |
//! | `discriminator/` | the same files of a discriminator |
//! | `companions/` | a folder for each further network of a step |
//! | `engine.json` | counters, metrics, best value, and the file of each handler's state |
//! | `handlers/` | one file for each handler that saves something |
//! | `store/` | one file for each value that a handler keeps under a key |
//! | `rng/seed` | the seed: every draw of a run is keyed by it, so there is no other state |
//! | `manifest.json` | length and BLAKE3 hash of every file above; written last |
//!
//! **Guarantee.** The folder is written under a temporary name, every file and folder is flushed to
//! disk, one rename gives the folder its name, and its parent is flushed. [`newest`] takes the
//! newest checkpoint whose manifest and hashes are right. It skips a damaged or half-written one,
//! with a warning that names the damage: a run resumes from it and trains the lost epochs again.
//! Weights that are used as they are come from [`chosen`], for which a damaged checkpoint is an error.
//! [`prune`] never deletes the only intact one, nor the best one. A manifest names its run, and a
//! checkpoint of another run is refused.
//!
//! **Limits.** It guards against crashes, full disks and bit rot, but not against a forged
//! checkpoint with matching hashes. Nothing in a checkpoint is ever executed. Two processes must
//! not write into one folder of checkpoints.
//!
//! Trainers write and read all of it; these are the functions for other programs:
//!
//! ```
//! use hearth_train::checkpoint::{self, Files, Header};
//!
//! let folder = tempfile::tempdir()?;
//! let header = Header { epoch: 1, iteration: 10, tag: "epoch".to_owned(), ..Header::default() };
//! let files = Files::from([("note.txt".to_owned(), b"a file".to_vec())]);
//! let written = checkpoint::write(folder.path(), &header, &files)?;
//! let newest = checkpoint::newest(folder.path())?;
//! assert_eq!((&newest.path, newest.file("note.txt")?), (&written, b"a file".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod background;
mod error;
pub(crate) mod gan_files;
pub(crate) mod learner_files;
mod manifest;
mod name;
mod prune;
mod read;
pub(crate) mod snapshot_files;
mod tensor_file;
pub(crate) mod trainer_files;
mod write;

pub use error::{CheckpointError, Damage};
pub use manifest::{FileSum, Header, Manifest};
pub use name::{file_name_of, folder_name};
pub use prune::prune;
use prune::prune_of;
pub use read::{Checkpoint, Entry, chosen, intact, is_one, list, newest, newest_of};
pub use write::write;

/// The files of a checkpoint by relative path, with `/` between folders.
pub type Files = std::collections::BTreeMap<String, Vec<u8>>;

/// The manifest's file name.
pub const MANIFEST: &str = "manifest.json";

/// The prefix of folders that are half-written or half-deleted. They are never read.
const TEMPORARY: &str = ".partial-";

#[cfg(test)]
mod tests;
