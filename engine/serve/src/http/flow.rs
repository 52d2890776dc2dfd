//! The speed and the size of a body while it arrives: [`Flow`], [`Metered`].

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::http::StatusCode;
use hyper::body::{Bytes, Frame};

use super::fault::Fault;

/// The fewest bytes of a body, or its rest, that must arrive within the time limit.
const LEAST: u64 = 64 << 10;

/// The most bytes of a form that may be held until a part of it is complete: its head, with names.
const HELD: u64 = 1 << 20;

/// Measures a body. A client that sends single bytes does not hold a connection for longer than one
/// that sends none.
pub struct Flow {
    idle: Duration,
    /// The time spent waiting since the last [`LEAST`] bytes.
    waited: Duration,
    /// All bytes at that time.
    mark: u64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    all: AtomicU64,
    held: AtomicU64,
    is_over: AtomicBool,
}

impl Flow {
    pub fn new(idle: Duration) -> Self {
        Self { idle, waited: Duration::ZERO, mark: 0, counts: Arc::default() }
    }

    /// The body, measured.
    pub fn metered(&self, body: Body) -> Body {
        Body::new(Metered { inner: body, counts: self.counts.clone(), paused: false })
    }

    /// Waits for the next part of the body, with the time limit.
    pub async fn next<T>(&mut self, part: impl Future<Output = T>) -> Result<T, Fault> {
        let start = Instant::now();
        let found = tokio::time::timeout(self.idle.saturating_sub(self.waited), part).await;
        self.waited += start.elapsed();
        let all = self.counts.all.load(Ordering::Relaxed);
        let found = found.map_err(|_| {
            let (seconds, came) = (self.idle.as_secs_f64(), all - self.mark);
            let least = hearth_machine::readable(LEAST);
            let what = format!("{came} bytes came in {seconds} s, expected {least} or the rest");
            Fault::new(StatusCode::REQUEST_TIMEOUT, what)
        })?;
        if all - self.mark >= LEAST {
            (self.mark, self.waited) = (all, Duration::ZERO);
        }
        self.counts.held.store(0, Ordering::Relaxed);
        Ok(found)
    }

    /// Whether a part was larger than what is held of a form.
    pub fn is_over(&self) -> bool {
        self.counts.is_over.load(Ordering::Relaxed)
    }
}

/// A body that counts its bytes. A reader of forms keeps all that it gets until a part is complete, so it
/// gets one piece at a time, and an error after too many.
struct Metered {
    inner: Body,
    counts: Arc<Counts>,
    paused: bool,
}

impl HttpBody for Metered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if std::mem::take(&mut self.paused) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            let count = data.len() as u64;
            self.counts.all.fetch_add(count, Ordering::Relaxed);
            let held = self.counts.held.fetch_add(count, Ordering::Relaxed) + count;
            self.paused = true;
            if held > HELD {
                self.counts.is_over.store(true, Ordering::Relaxed);
                return Poll::Ready(Some(Err(axum::Error::new(io::Error::other("a part is too long")))));
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.inner.size_hint()
    }
}
