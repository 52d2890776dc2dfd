//! Pictures of image, label and prediction for TensorBoard: [`TensorBoardImage`].

use derive_setters::Setters;
use std::path::{Path, PathBuf};

use hearth_engine::{Context, Event, Handler, HandlerError, Ranks, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event_file::Curves;
use crate::panel::{Panel, Slice};
use hearth_registry::Fault;

/// Options of [`TensorBoardImage`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct TensorBoardImageOptions {
    /// Folder of the event files.
    #[setters(into)]
    pub dir: PathBuf,
    /// Epochs between two pictures; 1 or more.
    pub every: u64,
    /// The tensors to show next to each other: the first in grey, the others as classes in colour.
    #[setters(into)]
    pub tensors: Vec<String>,
    /// The axis of the middle slice: 0 is X, 1 is Y, 2 is Z.
    pub axis: usize,
    /// The index of the item of the batch, or of the first item of a grid.
    pub item: usize,
    /// Rows and columns of a grid of items, from `item` on, as far as the batch has items.
    pub grid: [usize; 2],
    /// The picture's name.
    #[setters(into)]
    pub tag: String,
}

impl Default for TensorBoardImageOptions {
    fn default() -> Self {
        Self {
            dir: "tensorboard".into(),
            every: 1,
            tensors: ["image", "label", "pred"].map(String::from).to_vec(),
            axis: 2,
            item: 0,
            grid: [1, 1],
            tag: "image | label | prediction".into(),
        }
    }
}

/// Writes a picture every few epochs: the middle slice of the epoch's first batch. In a
/// validation's engine it shows the same case each time; with `grid` it shows several items of the
/// batch, for example of generated images. Tensors that the workflow does not have (a label, in
/// prediction) are omitted.
///
/// X points right and Y up (for a slice across Z; for other axes Z points up). A batch has no
/// affine, so the transforms decide what that is on the patient: with `Orientation` to `RAS`,
/// anterior or superior is up, and the patient's right is on the right, unlike in the pictures of
/// `hearth predict --picture`. Without `Orientation` a picture is as stored in its file, and can be
/// upside down; 2-D images have their second axis upwards.
///
/// ```
/// # use hearth_engine::HostTensor;
/// # use hearth_handlers::{TensorBoardImage, TensorBoardImageOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// # let folder = tempfile::tempdir()?;
/// let images = TensorBoardImage::new(TensorBoardImageOptions::default(), folder.path())?;
/// let mut run = Rehearsal::new(images);
/// run.host.give("image", HostTensor::from_f32(vec![1, 1, 4, 4, 4], &[0.5; 64])?);
/// run.epochs(1, 1)?;
/// assert_eq!(std::fs::read_dir(folder.path().join("tensorboard"))?.count(), 1);
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Debug)]
pub struct TensorBoardImage {
    options: TensorBoardImageOptions,
    curves: Curves,
}

impl TensorBoardImage {
    /// A handler with these options, its files in the run's folder.
    ///
    /// # Errors
    /// If `every` is 0, the axis is not 0, 1 or 2, the grid is empty, or there are no tensors.
    pub fn new(options: TensorBoardImageOptions, run: &Path) -> Result<Self, Fault> {
        if options.every == 0 {
            return Err(Fault::at("every", "`every` is 0; give 1 or more"));
        }
        if options.axis > 2 {
            return Err(Fault::at("axis", format!("`axis` is {}; give 0 (X), 1 (Y) or 2 (Z)", options.axis)));
        }
        if options.grid.contains(&0) {
            return Err(Fault::at("grid", format!("`grid` is {:?}; give at least 1 row and 1 column", options.grid)));
        }
        if options.tensors.is_empty() {
            return Err(Fault::at("tensors", "`tensors` is empty; give at least `image`"));
        }
        Ok(Self { curves: Curves::new(run.join(&options.dir)), options })
    }
}

impl Handler for TensorBoardImage {
    fn name(&self) -> &str {
        "tensorboard_image"
    }

    fn subscriptions(&self) -> Vec<When> {
        let every = self.options.every;
        let first = move |epoch: u64, iteration: u64| epoch.is_multiple_of(every) && iteration == 1;
        vec![Event::IterationCompleted.filter(move |state, _| first(state.epoch, state.epoch_iteration))]
    }

    fn handle(&mut self, _: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let TensorBoardImageOptions { axis, item: first, grid: [rows, columns], tag, tensors, .. } = &self.options;
        let mut panel = Panel::default();
        let mut missing = String::new();
        for place in 0..rows * columns {
            if place > 0 && place % columns == 0 {
                panel.next_row();
            }
            for (index, name) in tensors.iter().enumerate() {
                match cx.host.tensor(name) {
                    // A last batch can be smaller than a grid.
                    Ok(tensor) if place > 0 && tensor.shape.first().is_some_and(|items| first + place >= *items) => {}
                    Ok(tensor) => {
                        let slice = Slice::middle(&tensor, first + place, *axis).map_err(|what| {
                            HandlerError::new(format!("the tensor `{name}` cannot be drawn: {what}"))
                        })?;
                        panel.add(slice, index > 0);
                    }
                    Err(error) => missing = error.to_string(),
                }
            }
        }
        let Some((width, height, png)) = panel.png()? else {
            let names = tensors.join(", ");
            return Err(HandlerError::new(format!("none of the tensors {names} is available: {missing}")));
        };
        self.curves.image(tag, cx.state.epoch, width, height, png)?;
        self.curves.flush()
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.curves.mark()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.curves.go_on(state)
    }
}

handler_entry!(TensorBoardImageOptions => "TensorBoardImage", files: [dir], paper: "", about: "Writes a picture of the first batch every few epochs, for TensorBoard.", example: "every = 5", TensorBoardImage::new);
