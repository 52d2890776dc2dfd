//! The recipe and the data of the ladder: those given, or `demo` on generated volumes.

use std::path::PathBuf;

use hearth_files::Scratch;
use hearth_registry::Document;

use super::super::{Args, SCRATCH, file_name};
use crate::commands::data::{spleen_options, write_spleens};
use crate::error::{Context, Outcome};
use crate::recipe::bundled;

/// The recipe for generated volumes.
const RECIPE: &str = "demo";

/// What the rows train, and on which data.
pub struct Input {
    /// The name of the recipe.
    pub recipe: String,
    /// The recipe.
    pub document: Document,
    /// The folder of the data.
    pub data: PathBuf,
    /// The name or description of the data.
    pub described: String,
    /// The folder of generated volumes, which is removed at the end.
    _made: Option<Scratch>,
}

/// Opens the recipe, and generates volumes if no data was given. They are hard to learn, and the rate is
/// constant as in the guide, so that the time to the target does not depend on the number of epochs.
pub fn open(args: &Args) -> Outcome<Input> {
    if !args.files.is_empty() {
        let usage = "a recipe and its data: hearth bench ladder hippocampus Task04_Hippocampus";
        let (recipe, data) = (args.file(0, usage)?.to_string_lossy().into_owned(), args.file(1, usage)?.clone());
        let (document, described) = (bundled::open(&recipe)?, file_name(&data));
        return Ok(Input { recipe, document, data, described, _made: None });
    }
    let mut document = bundled::open(RECIPE)?;
    document.set_option("bench ladder", "schedule", "{ name = \"Constant\" }")?;
    let (cases, size) = (args.cases.unwrap_or(24), args.size.unwrap_or(64));
    let folder = Scratch::new(SCRATCH).while_doing(|| "cannot make a temporary folder")?;
    let data = folder.path().join("volumes");
    write_spleens(&data, cases as usize, &spleen_options(Some(size as usize), args.seed()).hard(true))?;
    let described = format!("{cases} hard spleen phantoms, size {size}, seed {}", args.seed());
    Ok(Input { recipe: RECIPE.to_owned(), document, data, described, _made: Some(folder) })
}
