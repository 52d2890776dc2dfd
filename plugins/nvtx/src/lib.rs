//! The plugin `nvtx`: marks the parts of a run for NVIDIA's profilers. Without a profiler its cost
//! is not measurable.
//!
//! ```text
//! Engine
//!   Epoch
//!     Batch                               from asking for a batch to having it
//!     Iteration
//!       Forward, Loss, Backward, Model    (an evaluator: Forward, Model)
//! ```
//!
//! The ranges are nested and balanced even if a run is terminated, interrupted or fails: an open
//! range is closed with the range around it, and a run that resumes in mid-epoch opens the ranges
//! that it needs again. They belong to the thread that runs the engine.

#![forbid(unsafe_code)]

mod ranges;

use hearth_plugin::{Context, Event, Handler, HandlerError, When, export_plugin, options};

pub use ranges::{Profiler, Range, Ranges, Sink};

options! {
    /// Options of the plugin.
    pub struct Options {
        /// The ranges to mark: Engine, Epoch, Batch, Iteration, and Phase for those within an
        /// iteration.
        ranges: Vec<String> = ["Engine", "Epoch", "Batch", "Iteration", "Phase"].map(String::from).to_vec(),
    }
}

/// Marks the parts of a run.
#[derive(Debug)]
pub struct Nvtx<S: Sink = Profiler> {
    kinds: Vec<Kind>,
    ranges: Ranges<S>,
    /// Whether there is a loss after the prediction; known when the first iteration is complete.
    trains: Option<bool>,
    /// Whether a loss was seen in the current iteration.
    loss_seen: bool,
}

/// The kinds of ranges that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Engine,
    Epoch,
    Batch,
    Iteration,
    Phase,
}

const KINDS: [(&str, Kind); 5] = [
    ("Engine", Kind::Engine),
    ("Epoch", Kind::Epoch),
    ("Batch", Kind::Batch),
    ("Iteration", Kind::Iteration),
    ("Phase", Kind::Phase),
];

impl Nvtx {
    /// The handler with these options.
    ///
    /// # Errors
    /// If a range is unknown.
    pub fn new(options: Options) -> Result<Self, HandlerError> {
        Nvtx::with_sink(options, Profiler)
    }
}

impl<S: Sink> Nvtx<S> {
    /// The handler with a custom receiver of ranges.
    ///
    /// # Errors
    /// If a range is unknown.
    pub fn with_sink(options: Options, sink: S) -> Result<Self, HandlerError> {
        let kind = |name: &String| {
            let known = KINDS.iter().find(|(known, _)| known == name).map(|(_, kind)| *kind);
            known.ok_or_else(|| {
                let all = KINDS.map(|(name, _)| name).join(", ");
                HandlerError::new(format!("unknown range `{name}` in `ranges`; there are {all}"))
            })
        };
        let kinds = options.ranges.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { kinds, ranges: Ranges::new(sink), trains: None, loss_seen: false })
    }

    fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Opens a range, and the missing ones around it: a run that resumes in mid-epoch does not
    /// start them again.
    fn enter(&mut self, kind: Kind, range: Range) {
        let around = [(Kind::Engine, Range::Engine), (Kind::Epoch, Range::Epoch)];
        for (outer_kind, outer) in around.into_iter().filter(|(_, outer)| outer.level() < range.level()) {
            if self.has(outer_kind) && !self.ranges.is_open(outer) {
                self.ranges.open(outer);
            }
        }
        if self.has(kind) {
            self.ranges.open(range);
        } else {
            self.ranges.close(range.level());
        }
    }
}

impl<S: Sink + Send> Handler for Nvtx<S> {
    fn name(&self) -> &str {
        "nvtx"
    }

    fn subscriptions(&self) -> Vec<When> {
        let mut events = vec![
            Event::Started,
            Event::EpochStarted,
            Event::EpochCompleted,
            Event::Completed,
            Event::Terminate,
            Event::TerminateSingleEpoch,
            Event::Interrupt,
            Event::ExceptionRaised,
        ];
        if self.has(Kind::Batch) {
            events.extend([Event::GetBatchStarted, Event::GetBatchCompleted]);
        }
        if self.has(Kind::Iteration) || self.has(Kind::Phase) {
            events.extend([Event::IterationStarted, Event::IterationCompleted]);
        }
        if self.has(Kind::Phase) {
            events.extend([
                Event::ForwardCompleted,
                Event::LossCompleted,
                Event::BackwardCompleted,
                Event::ModelCompleted,
            ]);
        }
        events.into_iter().map(When::from).collect()
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match event {
            Event::Started => {
                self.ranges.close(Range::Engine.level());
                self.enter(Kind::Engine, Range::Engine);
            }
            Event::EpochStarted => self.enter(Kind::Epoch, Range::Epoch),
            Event::GetBatchStarted => self.enter(Kind::Batch, Range::Batch),
            Event::IterationStarted => {
                self.loss_seen = false;
                self.enter(Kind::Iteration, Range::Iteration);
                self.enter(Kind::Phase, Range::Forward);
            }
            Event::ForwardCompleted => {
                let trains = self.trains.unwrap_or(cx.state.engine == "trainer");
                self.enter(Kind::Phase, if trains { Range::Loss } else { Range::Model });
            }
            Event::LossCompleted => {
                self.loss_seen = true;
                self.enter(Kind::Phase, Range::Backward);
            }
            Event::BackwardCompleted => self.enter(Kind::Phase, Range::Model),
            Event::ModelCompleted => {
                self.trains = Some(self.loss_seen);
                self.ranges.close(Range::Model.level());
            }
            Event::GetBatchCompleted | Event::IterationCompleted | Event::TerminateSingleEpoch => {
                self.ranges.close(Range::Iteration.level());
            }
            Event::EpochCompleted | Event::Terminate => self.ranges.close(Range::Epoch.level()),
            _ => self.ranges.close(Range::Engine.level()),
        }
        Ok(())
    }
}

export_plugin!("nvtx", Options, Nvtx::new, needs: []);
