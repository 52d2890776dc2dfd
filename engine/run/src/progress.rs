//! Progress of a pass over cases, and of a network over an image: [`PassProgress`], `Windows`.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use hearth_data::{Progress, Running};
use hearth_engine::{Context, Event, Handler, HandlerError, OnError, Ranks, When};

use hearth_recipe::notice;
use hearth_recipe::text::seconds;

/// The interval of lines in a log; most passes are shorter.
const QUIET: Duration = Duration::from_secs(10);

/// Shows a pass of validation or evaluation: a bar on a terminal, otherwise a line at intervals.
#[derive(Debug)]
pub struct PassProgress {
    name: &'static str,
    how: Progress,
    bar: Option<Running>,
    lines: Option<Pace>,
}

/// A timer for lines of a log.
#[derive(Debug)]
struct Pace(Instant);

impl Pace {
    /// Whether enough time has passed since the last line.
    fn is_due(&mut self) -> bool {
        let due = self.0.elapsed() >= QUIET;
        if due {
            self.0 = Instant::now();
        }
        due
    }
}

impl PassProgress {
    /// Creates the progress of a pass with this name.
    pub fn new(name: &'static str, how: Progress) -> Self {
        Self { name, how, bar: None, lines: None }
    }
}

impl Handler for PassProgress {
    fn name(&self) -> &str {
        "pass_progress"
    }

    fn subscriptions(&self) -> Vec<When> {
        let ends = Event::EpochCompleted | Event::Completed | Event::Interrupt | Event::ExceptionRaised;
        vec![Event::EpochStarted | Event::IterationCompleted | ends]
    }

    fn handle(&mut self, event: Event, cx: &mut Context<'_>) -> Result<(), HandlerError> {
        match (event, self.how) {
            (_, Progress::None) => {}
            (Event::EpochStarted, Progress::Bar) => {
                self.bar = cx.state.epoch_length.map(|cases| self.how.start(self.name, cases));
            }
            (Event::EpochStarted, Progress::Lines) => self.lines = Some(Pace(Instant::now())),
            (Event::IterationCompleted, _) => {
                if let Some(bar) = &self.bar {
                    bar.advance();
                }
                let (done, all) = (cx.state.epoch_iteration, cx.state.epoch_length);
                if self.lines.as_mut().is_some_and(Pace::is_due) {
                    let of = all.map_or_else(String::new, |all| format!(" of {all}"));
                    notice!("{}: {done}{of} cases", self.name);
                }
            }
            _ => {
                self.lines = None;
                if let Some(bar) = self.bar.take() {
                    bar.finish();
                }
            }
        }
        Ok(())
    }

    fn on_error(&self) -> OnError {
        OnError::Disable
    }

    fn ranks(&self) -> Ranks {
        Ranks::First
    }
}

/// The progress of a network over an image: one call, or one call per batch of windows.
pub struct Windows {
    bar: Running,
    pace: RefCell<Option<Pace>>,
    total: Option<u64>,
    begun: Instant,
    done: Cell<u64>,
}

impl Windows {
    /// Starts the progress with this total number of calls, if known.
    pub fn new(how: Progress, total: Option<u64>) -> Self {
        let pace = (how == Progress::Lines).then(|| Pace(Instant::now()));
        // Without a terminal a line at intervals is enough.
        let how = if how == Progress::Lines { Progress::None } else { how };
        let bar = match total {
            Some(total) => how.start("windows", total),
            None => how.start_counting("windows"),
        };
        Self { bar, pace: RefCell::new(pace), total, begun: Instant::now(), done: Cell::new(0) }
    }

    /// Counts one call of the network.
    pub fn step(&self) {
        self.bar.advance();
        self.done.set(self.done.get() + 1);
        if self.pace.borrow_mut().as_mut().is_some_and(Pace::is_due) {
            let done = self.done.get();
            match self.total.filter(|total| *total >= done) {
                Some(total) => {
                    let left = self.begun.elapsed().as_secs_f64() / done as f64 * (total - done) as f64;
                    notice!("windows: {done} of {total}, {} left", seconds(left));
                }
                None => notice!("windows: {done} so far"),
            }
        }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.bar.finish();
    }
}
