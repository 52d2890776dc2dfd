//! Ranges that stay nested and balanced: [`Ranges`].

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Range {
    Engine,
    Epoch,
    Batch,
    Iteration,
    Forward,
    Loss,
    Backward,
    Model,
}

impl Range {
    /// The nesting depth: ranges of one level follow each other.
    pub const fn level(self) -> u8 {
        match self {
            Range::Engine => 0,
            Range::Epoch => 1,
            Range::Batch | Range::Iteration => 2,
            Range::Forward | Range::Loss | Range::Backward | Range::Model => 3,
        }
    }

    /// The name in the profiler.
    pub const fn name(self) -> &'static str {
        match self {
            Range::Engine => "Engine",
            Range::Epoch => "Epoch",
            Range::Batch => "Batch",
            Range::Iteration => "Iteration",
            Range::Forward => "Forward",
            Range::Loss => "Loss",
            Range::Backward => "Backward",
            Range::Model => "Model",
        }
    }
}

/// Receives the ranges.
pub trait Sink {
    /// A range begins.
    fn push(&mut self, name: &'static str);
    /// The innermost range ends.
    fn pop(&mut self);
}

/// Sends ranges to NVTX: to the profiler that the program runs under, if any.
#[derive(Clone, Copy, Debug, Default)]
pub struct Profiler;

impl Sink for Profiler {
    fn push(&mut self, name: &'static str) {
        nvtx::range_push!("{name}");
    }

    fn pop(&mut self) {
        nvtx::range_pop!();
    }
}

/// The open ranges, outermost first.
#[derive(Debug)]
pub struct Ranges<S: Sink> {
    open: Vec<Range>,
    sink: S,
}

impl<S: Sink> Ranges<S> {
    /// Creates a list without open ranges.
    pub fn new(sink: S) -> Self {
        Self { open: Vec::new(), sink }
    }

    /// Whether this range is open.
    pub fn is_open(&self, range: Range) -> bool {
        self.open.contains(&range)
    }

    /// Opens a range in place of those of its level and of all deeper ones.
    pub fn open(&mut self, range: Range) {
        self.close(range.level());
        self.sink.push(range.name());
        self.open.push(range);
    }

    /// Closes the ranges of this level and deeper ones, innermost first.
    pub fn close(&mut self, level: u8) {
        while self.open.last().is_some_and(|range| range.level() >= level) {
            self.open.pop();
            self.sink.pop();
        }
    }
}

impl<S: Sink> Drop for Ranges<S> {
    fn drop(&mut self) {
        self.close(0);
    }
}
