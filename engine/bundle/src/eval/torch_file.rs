//! `torch.load(file)` of plain values and NumPy arrays.

use hearth_pickle::Options;
use hearth_pickle::torch::{Layout, Saved, SavedError};

use super::{Eval, World, files, pickled};
use crate::fault::{Fault, FaultKind};

/// The largest pickle in bytes that an expression reads. Tensors are stored outside of it and not read.
const LARGEST: u64 = 64 << 20;

/// The content of a file that `torch.save` wrote.
pub fn load(world: &World, path: &str) -> Eval {
    if let Some(known) = world.loaded.borrow().get(path) {
        return Ok(known.clone());
    }
    files::check(world, path)?;
    let wrong = |what: String| Fault::new(FaultKind::File, format!("{path} cannot be read: {what}"));
    let (value, count) = content(world, path).and_then(|saved| pickled::value(saved.pickled())).map_err(wrong)?;
    world.take(count)?;
    world.loaded.borrow_mut().insert(path.to_owned(), value.clone());
    Ok(value)
}

fn content(world: &World, path: &str) -> Result<Saved, String> {
    let saved = Saved::open(&world.path(path), &Options::default(), LARGEST);
    let saved = saved.map_err(|error| match error {
        SavedError::Unknown => "it is no file of torch.save".to_owned(),
        error => error.to_string(),
    })?;
    // `torch.load` does not accept a bare pickle, either.
    match saved.layout() {
        Layout::Pickle => Err("it is a pickle by itself, and no file of torch.save".to_owned()),
        _ => Ok(saved),
    }
}
