//! The phases of the steps of a trace.

use std::path::Path;

use super::read::{Event, Thread, TraceError, events};
use super::{StepTimes, TraceSummary};

/// A time from a start to an end, in microseconds. Starts empty.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: f64,
    end: f64,
}

impl Default for Span {
    fn default() -> Self {
        Self { start: f64::INFINITY, end: f64::NEG_INFINITY }
    }
}

impl Span {
    fn of(event: &Event) -> Self {
        Self { start: event.ts, end: event.ts + event.dur }
    }

    fn extend(&mut self, other: Span) {
        *self = Self { start: self.start.min(other.start), end: self.end.max(other.end) };
    }

    fn seconds(self) -> Option<f64> {
        (self.end >= self.start).then_some((self.end - self.start) * 1e-6)
    }
}

/// Numbers from a first to a last one. Starts empty.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    first: u64,
    last: u64,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { first: u64::MAX, last: 0 }
    }
}

/// A step and what is found in it.
#[derive(Debug, Default)]
struct Step {
    number: u64,
    whole: Span,
    /// The end of the load within the step, from which the forward pass is searched.
    loaded: f64,
    load: f64,
    loads: u64,
    forward: Span,
    backward: Span,
    /// The numbers of the kernels that the passes started.
    forward_kernels: Numbers,
    backward_kernels: Numbers,
    forward_on_card: Span,
    backward_on_card: Span,
}

/// The steps of a trace while it is read.
#[derive(Debug, Default)]
pub(super) struct Phases {
    steps: Vec<Step>,
    hearth: bool,
    has_kernels: bool,
    thread: Option<Thread>,
    first_load: Option<Span>,
    /// Hearth's validations, whose iterations are no training steps.
    validations: Vec<Span>,
}

/// PyTorch's names of ranges.
const STEP: &str = "ProfilerStep#";
const LOAD: &str = "enumerate(DataLoader)#";
const BACKWARD: &str = "autograd::engine::evaluate_function";
const OPTIMIZER: &str = "Optimizer.";

impl Phases {
    pub fn read(path: &Path) -> Result<TraceSummary, TraceError> {
        let mut this = Self::default();
        let mut loads = Vec::new();
        events(path, |event| this.find_step(&event, &mut loads))?;
        let Self { steps, validations, .. } = &mut this;
        let trains = |span: &Span| !validations.iter().any(|of| of.start <= span.start && span.end <= of.end);
        steps.retain(|step| trains(&step.whole));
        loads.retain(trains);
        if this.steps.is_empty() {
            return Err(TraceError::NoSteps { path: path.to_owned() });
        }
        this.steps.sort_by(|a, b| a.whole.start.total_cmp(&b.whole.start));
        loads.sort_by(|a: &Span, b| a.start.total_cmp(&b.start));
        this.first_load = loads.first().copied();
        loads.into_iter().skip(1).for_each(|load| this.add_load(load));
        if this.hearth {
            events(path, |event| this.find_range(&event))?;
        } else {
            events(path, |event| this.find_backward(&event))?;
            events(path, |event| this.find_forward(&event))?;
        }
        if this.has_kernels {
            events(path, |event| this.find_launch(&event))?;
            events(path, |event| this.find_kernel(&event))?;
        }
        Ok(this.summary())
    }

    /// The step during which something starts.
    fn step_at(&mut self, at: f64) -> Option<&mut Step> {
        let after = self.steps.partition_point(|step| step.whole.start <= at);
        let step = self.steps.get_mut(after.checked_sub(1)?)?;
        (at < step.whole.end).then_some(step)
    }

    /// First pass: steps and loads.
    fn find_step(&mut self, event: &Event, loads: &mut Vec<Span>) {
        match event.cat.as_str() {
            "user_annotation" | "cpu_op" | "Operator" if event.name.starts_with(LOAD) => loads.push(Span::of(event)),
            "user_annotation" | "cpu_op" | "Operator" if event.name.starts_with(STEP) => {
                let number = event.name[STEP.len()..].parse().unwrap_or(self.steps.len() as u64);
                self.thread.clone_from(&event.tid);
                self.steps.push(Step { number, whole: Span::of(event), ..Step::default() });
            }
            "iteration" => {
                self.hearth = true;
                let number = event.args.iteration.unwrap_or(self.steps.len() as u64 + 1);
                self.thread.clone_from(&event.tid);
                self.steps.push(Step { number, whole: Span::of(event), ..Step::default() });
            }
            "fetch" => loads.push(Span::of(event)),
            "validation" => self.validations.push(Span::of(event)),
            "kernel" => self.has_kernels = true,
            _ => {}
        }
    }

    fn add_load(&mut self, load: Span) {
        if let (Some(step), Some(seconds)) = (self.step_at(load.start), load.seconds()) {
            step.loads += 1;
            step.load += seconds;
            step.loaded = step.loaded.max(load.end);
        }
    }

    /// Hearth marks the phases themselves.
    fn find_range(&mut self, event: &Event) {
        if event.tid != self.thread {
            return;
        }
        let Some(step) = self.step_at(event.ts) else { return };
        match event.cat.as_str() {
            "forward" | "loss" => step.forward.extend(Span::of(event)),
            "backward" => step.backward.extend(Span::of(event)),
            _ => {}
        }
    }

    /// The backward pass runs in a thread of its own.
    fn find_backward(&mut self, event: &Event) {
        if event.name.starts_with(BACKWARD)
            && let Some(step) = self.step_at(event.ts)
        {
            step.backward.extend(Span::of(event));
        }
    }

    /// The forward pass: the operators of the training thread after the load and before the backward
    /// pass. A step usually ends with the load of the next batch, which is not part of it.
    fn find_forward(&mut self, event: &Event) {
        if event.tid != self.thread || event.cat != "cpu_op" || event.name.starts_with(OPTIMIZER) {
            return;
        }
        let Some(step) = self.step_at(event.ts) else { return };
        let within_load = step.loaded < step.backward.start && event.ts < step.loaded;
        if event.ts < step.backward.start && !within_load {
            step.forward.extend(Span::of(event));
        }
    }

    /// The numbers of the kernels that each pass started: they increase with the time of the start.
    fn find_launch(&mut self, event: &Event) {
        let Some(number) =
            event.args.correlation.filter(|_| event.cat.ends_with("_runtime") || event.cat.ends_with("_driver"))
        else {
            return;
        };
        let Some(step) = self.step_at(event.ts) else { return };
        let numbers = if event.ts >= step.forward.start && event.ts < step.backward.start {
            &mut step.forward_kernels
        } else if event.ts >= step.backward.start && event.ts <= step.backward.end {
            &mut step.backward_kernels
        } else {
            return;
        };
        (numbers.first, numbers.last) = (numbers.first.min(number), numbers.last.max(number));
    }

    fn find_kernel(&mut self, event: &Event) {
        let Some(number) = event.args.correlation.filter(|_| event.cat == "kernel") else { return };
        for step in &mut self.steps {
            let passes = [
                (step.forward_kernels, &mut step.forward_on_card),
                (step.backward_kernels, &mut step.backward_on_card),
            ];
            for (Numbers { first, last }, span) in passes {
                if first <= number && number <= last {
                    span.extend(Span::of(event));
                }
            }
        }
    }

    fn summary(self) -> TraceSummary {
        let Self { steps, hearth, has_kernels, first_load, .. } = self;
        let kernels = has_kernels && !hearth;
        let steps = steps.into_iter().map(|step| StepTimes {
            number: step.number,
            load: (step.loads > 0).then_some(step.load),
            forward: if kernels { step.forward_on_card } else { step.forward }.seconds(),
            backward: if kernels { step.backward_on_card } else { step.backward }.seconds(),
            step: step.whole.seconds().unwrap_or(0.0),
        });
        let program = if hearth { "Hearth" } else { "PyTorch" };
        TraceSummary { program, kernels, first_load: first_load.and_then(Span::seconds), steps: steps.collect() }
    }
}
