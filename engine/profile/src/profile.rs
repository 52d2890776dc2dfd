//! A recording and its statistics: [`Profile`].

use std::io;
use std::path::Path;

use serde::Serialize;

use crate::chrome;
use crate::history::History;
use crate::idle::Occupancy;
use crate::kernels::{self, KernelRow, Roof, kernels};
use crate::layer::owners;
use crate::layers::{self, LayerRow, layers};
use crate::memory::Memory;
use crate::owners::MemoryByOwner;
use crate::picture::picture;
use crate::summary::Summary;
use crate::timeline::Timeline;

/// A recording and its statistics.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Profile {
    /// The time of each kind of work.
    #[serde(flatten)]
    pub summary: Summary,
    /// The parts of the memory; `None` where memory was not measured.
    pub memory: Option<Memory>,
    /// Memory over time, by owner.
    #[serde(skip)]
    pub by_owner: MemoryByOwner,
    /// Memory over time, as allocations.
    #[serde(skip)]
    pub history: Option<History>,
    /// The peak performance of the machine, where it was measured.
    pub roof: Option<Roof>,
    /// The kernels.
    pub kernels: Vec<KernelRow>,
    /// The layers of the network, where they were recorded as ranges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerRow>,
    /// The time in kernels, and the causes of the rest; `None` for GPU kernels.
    pub occupancy: Option<Occupancy>,
    /// The recording.
    #[serde(skip)]
    pub timeline: Timeline,
    /// The machine's activity, as curves of the trace.
    #[serde(skip)]
    pub curves: Vec<chrome::Counter>,
}

impl Profile {
    /// Evaluates a recording; `first_load` is the same as in [`Summary::of`].
    pub fn of(timeline: Timeline, first_load: Option<f64>, roof: Option<Roof>) -> Self {
        let kept = owners();
        let by_owner = MemoryByOwner::of(&timeline, &kept);
        Self {
            summary: Summary::of(&timeline, first_load),
            memory: Memory::of(&timeline, &by_owner),
            by_owner,
            history: History::of(&timeline, &kept),
            roof,
            kernels: kernels(&timeline, roof),
            layers: layers(&timeline),
            occupancy: Occupancy::of(&timeline),
            timeline,
            curves: Vec::new(),
        }
    }

    /// Formats tables for the user.
    pub fn table(&self) -> String {
        let mut text = self.summary.table();
        if !self.kernels.is_empty() {
            text.push_str(&format!("\n{}", kernels::table(&self.kernels)));
        }
        if !self.layers.is_empty() {
            text.push_str(&format!("\n{}", layers::table(&self.layers)));
        }
        if let Some(roof) = self.roof {
            let [flop, bytes] = [roof.flop, roof.bytes].map(|rate| rate * 1e-9);
            text.push_str(&format!("\nthe roof of this machine: {flop:.0} GFLOP/s, {bytes:.0} GB/s\n"));
        }
        if let Some(occupancy) = &self.occupancy {
            text.push_str(&format!("\n{}", occupancy.table()));
        }
        if let Some(memory) = &self.memory {
            text.push_str(&format!("\n{}", memory.table()));
        }
        text
    }

    /// Memory over time, by owner, as curves of a trace.
    fn memory_curves(&self) -> Option<chrome::Stack> {
        let MemoryByOwner { owners, samples } = &self.by_owner;
        let mib = |bytes: &u64| *bytes as f64 / 1_048_576.0;
        let samples = samples.iter().map(|(at, bytes)| (*at, bytes.iter().map(mib).collect())).collect();
        let name = "memory in use (MiB)".to_owned();
        self.memory.as_ref().map(|_| chrome::Stack { name, parts: owners.clone(), samples })
    }

    /// Writes `trace.json.gz`, `summary.json` and `summary.txt` into a folder, which is created,
    /// and `memory.png` and `memory_snapshot.pickle` where memory was measured.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub fn write(&self, folder: &Path, process: (u32, &str)) -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        let stacks = self.memory_curves().into_iter().collect();
        let curves = chrome::Curves { counters: self.curves.clone(), stacks };
        chrome::write(&folder.join("trace.json.gz"), &self.timeline, &curves, process)?;
        if let Some(memory) = &self.memory {
            let drawn = picture(&self.by_owner, memory, self.timeline.nanos as f64 * 1e-9).png();
            hearth_files::replace(&folder.join("memory.png"), drawn.map_err(io::Error::other)?)?;
        }
        if let Some(history) = &self.history {
            hearth_files::replace(&folder.join("memory_snapshot.pickle"), history.pickle())?;
        }
        let json = serde_json::to_string_pretty(self)? + "\n";
        hearth_files::replace(&folder.join("summary.json"), json)?;
        hearth_files::replace(&folder.join("summary.txt"), self.table())
    }
}
