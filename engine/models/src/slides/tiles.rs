//! The progress of a map.

use std::time::{Duration, Instant};

use hearth_data::{Progress, Running};
use hearth_recipe::notice;
use hearth_recipe::text::seconds;

/// The interval of lines in a log.
const QUIET: Duration = Duration::from_secs(20);

/// The progress of the patches of a map: a bar on a terminal, otherwise a line at intervals with the
/// rate and the time left.
pub(super) struct Tiles {
    name: String,
    how: Progress,
    bar: Running,
    begun: Instant,
    shown: Instant,
    total: usize,
    done: usize,
    /// Patches from an earlier call, which are not part of the rate.
    resumed: usize,
}

impl Tiles {
    /// Starts the progress of a slide with this name, of whose patches an earlier call has finished
    /// `resumed`.
    pub(super) fn start(how: Progress, name: String, total: usize, resumed: usize) -> Self {
        if resumed > 0 {
            notice!("{name}: {resumed} of {total} tiles were done by an earlier call");
        }
        // Without a terminal a line at intervals is enough.
        let bar = if how == Progress::Lines { Progress::None } else { how }.start("tiles", total as u64);
        bar.advance_by(resumed as u64);
        let now = Instant::now();
        Self { name, how, bar, begun: now, shown: now, total, done: resumed, resumed }
    }

    /// Reports that this number of patches is finished.
    pub(super) fn reach(&mut self, done: usize) {
        self.bar.advance_by(done.saturating_sub(self.done) as u64);
        self.done = done;
        if self.how == Progress::Lines && self.shown.elapsed() >= QUIET {
            self.shown = Instant::now();
            let (Self { name, total, .. }, rate) = (&*self, self.rate());
            let left = seconds(total.saturating_sub(done) as f64 / rate.max(1e-9));
            notice!("{name}: {done} of {total} tiles, {rate:.1} tiles/s, {left} left");
        }
    }

    /// Reports the end of the map.
    pub(super) fn end(self) {
        self.bar.finish();
        let (tiles, spent) = (self.done - self.resumed, seconds(self.begun.elapsed().as_secs_f64()));
        notice!("{}: {tiles} tiles in {spent}, {:.1} tiles/s", self.name, self.rate());
    }

    fn rate(&self) -> f64 {
        (self.done - self.resumed) as f64 / self.begun.elapsed().as_secs_f64().max(1e-9)
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        self.bar.finish();
    }
}
