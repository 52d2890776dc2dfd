//! Turns spans into ranges: [`TimelineLayer`], and [`Recording`], which switches it on.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::timeline::{Range, Timeline, Value};

/// The target of spans that serve as ranges only.
pub const TARGET: &str = "hearth::range";

/// Spans whose target has this prefix are ranges.
const PREFIX: &str = "hearth";

/// The maximum number of ranges in a recording: about 1 GB.
const MOST: u64 = 8_000_000;

/// Whether a recording exists, even if it is paused.
static ARMED: AtomicBool = AtomicBool::new(false);
/// Whether ranges are recorded at the moment.
static RUNNING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU64 = AtomicU64::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
/// When the current stretch of recording began, in nanoseconds of the process, and the length of
/// the stretches before it.
static BEGAN: AtomicU64 = AtomicU64::new(0);
static BEFORE: AtomicU64 = AtomicU64::new(0);

type Buffer = Arc<Mutex<Vec<Range>>>;

/// The name of each thread with ranges, and its ranges.
static THREADS: Mutex<Vec<(String, Buffer)>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: RefCell<Option<(usize, Buffer)>> = const { RefCell::new(None) };
}

/// Bytes that the owners of memory keep, by name.
pub type Owners = Vec<(&'static str, usize)>;

/// Functions that return the bytes in use by the process, and the owners' shares of them.
static PROBE: OnceLock<Probe> = OnceLock::new();

type Probe = (fn() -> usize, fn() -> Owners);

/// Records the bytes that `in_use` returns at both ends of each range from now on, and the result
/// of `owners` at the end of a recording. Only the first call has an effect.
pub fn measure_memory(in_use: fn() -> usize, owners: fn() -> Owners) {
    let _ = PROBE.set((in_use, owners));
}

/// The bytes that owners keep now.
pub(crate) fn owners() -> Owners {
    PROBE.get().map_or_else(Vec::new, |(_, owners)| owners())
}

fn memory() -> u64 {
    PROBE.get().map_or(0, |(in_use, _)| in_use() as u64)
}

/// Nanoseconds since the first call.
fn now() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error of a second recording: a process has one timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl std::fmt::Display for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this process is being profiled already: one profile at a time")
    }
}

impl std::error::Error for Busy {}

/// A recording of this process. Dropping it ends it.
#[derive(Debug)]
pub struct Recording(());

impl Recording {
    /// Starts a recording.
    ///
    /// # Errors
    /// Where a recording exists already.
    pub fn start() -> Result<Self, Busy> {
        let recording = Self::prepare()?;
        recording.run(true);
        Ok(recording)
    }

    /// Prepares a recording that does not [run](Self::run) yet.
    ///
    /// # Errors
    /// Where a recording exists already.
    pub fn prepare() -> Result<Self, Busy> {
        if ARMED.swap(true, Ordering::SeqCst) {
            return Err(Busy);
        }
        for (_, buffer) in lock(&THREADS).iter() {
            lock(buffer).clear();
        }
        [&COUNT, &LOST, &BEFORE].into_iter().for_each(|count| count.store(0, Ordering::SeqCst));
        // Spans were disabled until now.
        tracing::callsite::rebuild_interest_cache();
        Ok(Self(()))
    }

    /// Resumes or pauses the recording. Time and ranges of a pause are left out; a range counts
    /// only where all of it was recorded.
    pub fn run(&self, running: bool) {
        if running && !RUNNING.load(Ordering::SeqCst) {
            BEGAN.store(now(), Ordering::SeqCst);
            RUNNING.store(true, Ordering::SeqCst);
        } else if !running && RUNNING.swap(false, Ordering::SeqCst) {
            BEFORE.fetch_add(now() - BEGAN.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }

    /// Whether the recording is running.
    pub fn is_running(&self) -> bool {
        RUNNING.load(Ordering::SeqCst)
    }

    /// Ends the recording and returns its timeline.
    pub fn stop(self) -> Timeline {
        self.run(false);
        let mut timeline = Timeline { lost: LOST.load(Ordering::SeqCst), ..Timeline::default() };
        timeline.nanos = BEFORE.load(Ordering::SeqCst);
        for (name, buffer) in lock(&THREADS).iter() {
            let mut ranges = std::mem::take(&mut *lock(buffer));
            if ranges.is_empty() {
                continue;
            }
            let thread = timeline.threads.len();
            ranges.iter_mut().for_each(|range| range.thread = thread);
            timeline.ranges.append(&mut ranges);
            timeline.threads.push(name.clone());
        }
        timeline.sort();
        timeline
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.run(false);
        ARMED.store(false, Ordering::SeqCst);
        tracing::callsite::rebuild_interest_cache();
    }
}

/// The state of a span.
struct Note {
    detail: Option<Arc<str>>,
    fields: Vec<(&'static str, Value)>,
    /// When its thread entered the span, and the bytes in use then; `None` outside of the span, or
    /// where it was entered unrecorded.
    entered: Option<(u64, u64)>,
}

impl Visit for Note {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), Value::Number(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), i64::try_from(value).map_or(Value::Float(value as f64), Value::Number)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), Value::Float(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), Value::Flag(value)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "name" => self.detail = Some(value.into()),
            name => self.fields.push((name, Value::Text(value.into()))),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Records spans while a [`Recording`] exists.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimelineLayer;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TimelineLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if !RUNNING.load(Ordering::Relaxed) {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let mut note = Note { detail: None, fields: Vec::new(), entered: None };
        attributes.record(&mut note);
        span.extensions_mut().insert(note);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !RUNNING.load(Ordering::Relaxed) {
            return;
        }
        let Some(span) = context.span(id) else { return };
        if let Some(note) = span.extensions_mut().get_mut::<Note>() {
            note.entered = Some((now(), memory()));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        if !RUNNING.load(Ordering::Relaxed) {
            return;
        }
        let end = now();
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(note) = extensions.get_mut::<Note>() else { return };
        let began = BEGAN.load(Ordering::Relaxed);
        let Some((entered, before)) = note.entered.take().filter(|(entered, _)| *entered >= began) else { return };
        if COUNT.fetch_add(1, Ordering::Relaxed) >= MOST {
            LOST.fetch_add(1, Ordering::Relaxed);
            return;
        }
        keep(Range {
            name: span.name(),
            detail: note.detail.clone(),
            fields: note.fields.clone(),
            thread: 0,
            start: BEFORE.load(Ordering::Relaxed) + (entered - began),
            nanos: end - entered,
            memory: [before, memory()],
        });
    }
}

/// Stores a range of this thread.
fn keep(range: Range) {
    let kept = OWN.try_with(|own| {
        let mut own = own.borrow_mut();
        let (_, buffer) = own.get_or_insert_with(|| {
            let mut threads = lock(&THREADS);
            let number = threads.len();
            let name = std::thread::current().name().map_or_else(|| format!("thread {number}"), str::to_owned);
            let buffer = Buffer::default();
            threads.push((name, Arc::clone(&buffer)));
            (number, buffer)
        });
        lock(buffer).push(range);
    });
    // A thread that is ending stores nothing more.
    if kept.is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Enables ranges while a recording exists, and disables them otherwise.
#[derive(Clone, Copy, Debug, Default)]
struct Ranges;

pub(crate) fn is_range(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with(PREFIX)
}

impl<S> Filter<S> for Ranges {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        ARMED.load(Ordering::Relaxed) && is_range(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if ARMED.load(Ordering::Relaxed) && is_range(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if ARMED.load(Ordering::Relaxed) { LevelFilter::TRACE } else { LevelFilter::OFF })
    }
}

/// The subscriber's layer that records: `registry().with(hearth_profile::layer())`.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    TimelineLayer.with_filter(Ranges)
}
