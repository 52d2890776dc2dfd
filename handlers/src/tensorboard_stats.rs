//! Curves for TensorBoard: [`TensorBoardStats`].

use derive_setters::Setters;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hearth_engine::{Context, Event, Handler, HandlerError, NamesOf, Ranks, State, When};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event_file::Curves;
use crate::hparams;

/// Options of [`TensorBoardStats`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(default, deny_unknown_fields)]
pub struct TensorBoardStatsOptions {
    /// Folder of the event files.
    #[setters(into)]
    pub dir: PathBuf,
    /// Iterations between two points of the loss and the learning rate; 0 for none. Reading the
    /// loss waits for the device.
    pub every_iterations: u64,
    /// Epochs between two points of the metrics; 0 for none.
    pub every_epochs: u64,
    /// The name of the loss's curve.
    #[setters(into)]
    pub loss: String,
    /// Whether the pictures and texts that handlers attach are written, too.
    pub attachments: bool,
    /// Whether the settings of the recipe are written, for the page HPARAMS that compares runs.
    pub hparams: bool,
}

impl Default for TensorBoardStatsOptions {
    fn default() -> Self {
        Self {
            dir: "tensorboard".into(),
            every_iterations: 10,
            every_epochs: 1,
            loss: "train/loss".into(),
            attachments: true,
            hparams: true,
        }
    }
}

/// Writes the metrics of each epoch (step: the epoch), and the loss, the learning rate and the
/// numbers, pictures and texts of other handlers (`Host::scalar`, `Host::attach`; step: the
/// iteration). A resumed run continues the same file from the
/// position stored in its checkpoint. Add it after the handlers that compute metrics.
///
/// For the page HPARAMS, a training with a recipe is a session: its settings at the start, its end, and
/// the key metric's best value as the curve `best/NAME`.
///
/// ```
/// # use hearth_engine::Metrics;
/// # use hearth_handlers::{TensorBoardStats, TensorBoardStatsOptions};
/// # use hearth_plugin::testkit::Rehearsal;
/// # let folder = tempfile::tempdir()?;
/// let stats = TensorBoardStats::new(TensorBoardStatsOptions::default(), folder.path());
/// let mut run = Rehearsal::new(stats);
/// run.metrics = vec![Metrics::from([("dice".to_owned(), 0.5)])];
/// run.epochs(1, 4)?;
/// assert_eq!(std::fs::read_dir(folder.path().join("tensorboard"))?.count(), 1);
/// # Ok::<(), hearth_engine::HandlerError>(())
/// ```
#[derive(Debug)]
pub struct TensorBoardStats {
    options: TensorBoardStatsOptions,
    curves: Curves,
    /// The iteration of the newest point of each curve of handlers.
    written: BTreeMap<String, u64>,
    /// Whether the file has the settings, if they are written at all.
    is_begun: bool,
}

impl TensorBoardStats {
    /// A handler with these options, its files in the run's folder.
    pub fn new(options: TensorBoardStatsOptions, run: &Path) -> Self {
        Self { curves: Curves::new(run.join(&options.dir)), options, written: BTreeMap::new(), is_begun: false }
    }

    /// Writes a picture or a text that a handler has attached; other files stay where they are.
    fn attached(&mut self, path: &Path, state: &State) -> Result<(), HandlerError> {
        let read = |error: std::io::Error| HandlerError::new(format!("{}: {error}", path.display()));
        match path.extension().and_then(|end| end.to_str()).map(str::to_lowercase).as_deref() {
            Some("png") => {
                let png = hearth_files::read(path).map_err(read)?;
                match size_of_png(&png) {
                    Some(size) => self.curves.picture(&tag_of(path), state.iteration, size, png),
                    None => Ok(()),
                }
            }
            Some("md" | "txt") => {
                let text = hearth_files::read_to_string(path).map_err(read)?;
                self.curves.text(&tag_of(path), state.iteration, text)
            }
            _ => Ok(()),
        }
    }

    /// What the run is, of a training with a recipe that is shown as a session.
    fn session(&self, cx: &Context<'_>) -> Option<String> {
        // An evaluator has no learning rate, and belongs to the session of its trainer.
        let is_one = self.options.hparams && cx.host.learning_rate().is_some();
        is_one.then(|| cx.host.run_info().ok()).flatten()
    }

    /// Begins the session, once.
    fn begin_session(&mut self, cx: &Context<'_>) -> Result<(), HandlerError> {
        let Some(info) = self.session(cx).filter(|_| !self.is_begun) else { return Ok(()) };
        self.is_begun = true;
        hparams::begin(&mut self.curves, cx.state.iteration, &hparams::settings(&serde_json::from_str(&info)?))
    }

    /// Ends the session, with the best value of its key metric.
    fn end_session(&mut self, cx: &Context<'_>, failed: bool) -> Result<(), HandlerError> {
        let state = cx.state;
        if self.session(cx).is_none() {
            return Ok(());
        }
        if let (Some(name), Some(best)) = (&state.key_metric, state.best_metric) {
            self.curves.scalar(&format!("best/{name}"), state.epoch, best)?;
        }
        hparams::end(&mut self.curves, state.iteration, failed)
    }

    fn handed_out(&mut self, cx: &Context<'_>) -> Result<(), HandlerError> {
        for (tag, scalar) in &cx.state.scalars {
            if self.written.get(tag) != Some(&scalar.iteration) {
                self.curves.scalar(tag, scalar.iteration, scalar.value)?;
                self.written.insert(tag.clone(), scalar.iteration);
            }
        }
        Ok(())
    }
}

/// The tag of an attachment: its path below `attachments`, without its ending.
fn tag_of(path: &Path) -> String {
    let parts = path.iter().skip_while(|part| *part != "attachments").skip(1);
    parts.collect::<PathBuf>().with_extension("").to_string_lossy().replace('\\', "/")
}

/// Width, height and number of channels of a PNG file.
fn size_of_png(png: &[u8]) -> Option<[u32; 3]> {
    let number = |at: usize| Some(u32::from_be_bytes(png.get(at..at + 4)?.try_into().ok()?));
    let channels = match png.get(25)? {
        0 => 1,
        4 => 2,
        2 | 3 => 3,
        _ => 4,
    };
    (png.starts_with(b"\x89PNG\r\n\x1a\n")).then_some([number(16)?, number(20)?, channels])
}

impl Handler for TensorBoardStats {
    fn name(&self) -> &str {
        "tensorboard_stats"
    }

    fn subscriptions(&self) -> Vec<When> {
        let ends = Event::Started | Event::Completed | Event::Interrupt | Event::ExceptionRaised;
        let attached = self.options.attachments.then(|| Event::Attached.into());
        [Event::IterationCompleted | Event::EpochCompleted | ends].into_iter().chain(attached).collect()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        let state = cx.state;
        self.handed_out(cx)?;
        match event {
            Event::Attached => {
                cx.host.names(NamesOf::Attachments).iter().try_for_each(|path| self.attached(Path::new(path), state))
            }
            Event::IterationCompleted => {
                let every = self.options.every_iterations;
                if every == 0 || !state.iteration.is_multiple_of(every) {
                    return Ok(());
                }
                if let Ok(loss) = cx.host.output("loss") {
                    self.curves.scalar(&self.options.loss, state.iteration, loss)?;
                }
                if let Some(rate) = cx.host.learning_rate() {
                    self.curves.scalar("learning_rate", state.iteration, rate)?;
                }
                Ok(())
            }
            Event::EpochCompleted => {
                let every = self.options.every_epochs;
                if every > 0 && state.epoch.is_multiple_of(every) {
                    for name in state.metrics.keys() {
                        if let Some(value) = state.fresh(name) {
                            self.curves.scalar(name, state.epoch, value)?;
                        }
                    }
                }
                self.curves.flush()
            }
            Event::Started => self.begin_session(cx),
            Event::Completed | Event::ExceptionRaised => {
                self.end_session(cx, event == Event::ExceptionRaised)?;
                self.curves.flush()
            }
            _ => self.curves.flush(),
        }
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.curves.mark()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<(), HandlerError> {
        self.written.clear();
        // The file was begun by the first part of the run.
        self.is_begun = true;
        self.curves.go_on(state)
    }
}

handler_entry!(TensorBoardStatsOptions => "TensorBoardStats", files: [dir], paper: "", about: "Writes the curves of loss, learning rate and metrics, for TensorBoard.", example: "every_iterations = 10", |options, run| Ok(TensorBoardStats::new(options, run)));
