//! `[profile]`: which steps of a training are recorded.

use std::path::{Component, Path, PathBuf};

use hearth_handlers::{ProfilerOptions, Unit};
use hearth_profile::Schedule;
use hearth_registry::Fault;
use serde::{Deserialize, Serialize};

/// The recorded steps of a training, and the folder of the recording. The handler `Profiler`
/// records them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileSteps {
    /// The unit of the next four: `iterations`, or `epochs` with their validations.
    pub unit: Unit,
    /// Steps at the beginning of a cycle that are not recorded.
    pub wait: u64,
    /// Further steps that are not recorded, because first steps are slower.
    pub warmup: u64,
    /// Steps that are recorded.
    pub active: u64,
    /// The number of cycles; 0 repeats until the end of the run. From the second one on, each has a
    /// folder `cycle-N`.
    pub repeat: u64,
    /// The ranks that record: `first`, or `all`, each into a folder `rank-N`.
    pub ranks: ProfiledRanks,
    /// The output folder, relative to the run's.
    pub out: PathBuf,
    /// Whether the forward pass of each layer is recorded as a range with its path in the network.
    pub layers: bool,
    /// The vendor's profiler to which all ranges of the run go, not only those of the recorded steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<RangesTo>,
}

/// A vendor's profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RangesTo {
    /// NVIDIA's: Nsight Systems.
    Nvtx,
    /// AMD's: rocprof.
    Roctx,
}

impl RangesTo {
    /// The name, as `hearth_profile::show_ranges` takes it.
    pub fn name(self) -> &'static str {
        match self {
            RangesTo::Nvtx => "nvtx",
            RangesTo::Roctx => "roctx",
        }
    }
}

/// The ranks that record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfiledRanks {
    /// The rank that writes the run.
    #[default]
    First,
    /// All ranks.
    All,
}

impl Default for ProfileSteps {
    fn default() -> Self {
        let Schedule { wait, warmup, active, repeat } = Schedule::default();
        let out = ProfilerOptions::default().folder;
        Self {
            unit: Unit::default(),
            wait,
            warmup,
            active,
            repeat,
            ranks: ProfiledRanks::default(),
            out,
            layers: false,
            ranges: None,
        }
    }
}

impl ProfileSteps {
    /// Checks the values.
    ///
    /// # Errors
    /// Values with which nothing is recorded, or an output folder outside of the run's.
    pub fn check(&self) -> Result<(), Fault> {
        let Self { wait, warmup, active, repeat, .. } = *self;
        let schedule = Schedule { wait, warmup, active, repeat };
        schedule.check().map_err(|error| Fault::at("profile.active", error.to_string()))?;
        let inside = self.out.components().all(|part| matches!(part, Component::Normal(_)));
        if self.out.as_os_str().is_empty() || !inside {
            let what = format!("{:?} is not a folder within the run's; give a name, as in \"profile\"", self.out);
            return Err(Fault::at("profile.out", what));
        }
        Ok(())
    }

    /// The options of the handler, for the run in this folder.
    pub fn options(&self, run: &Path) -> ProfilerOptions {
        ProfilerOptions::default()
            .folder(run.join(&self.out))
            .unit(self.unit)
            .wait(self.wait)
            .warmup(self.warmup)
            .active(self.active)
            .repeat(self.repeat)
            .all_ranks(self.ranks == ProfiledRanks::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_records_nothing_or_leaves_the_run_is_refused() {
        assert!(ProfileSteps::default().check().is_ok());
        let fault = |profiled: ProfileSteps| profiled.check().expect_err("refused").to_string();
        assert!(fault(ProfileSteps { active: 0, ..ProfileSteps::default() }).contains("active = 0"));
        for out in ["", "/tmp/profile", "../profile", "a/../../b"] {
            let said = fault(ProfileSteps { out: out.into(), ..ProfileSteps::default() });
            assert!(said.contains("within the run's"), "{said}");
        }
        assert!(ProfileSteps { out: "looks/first".into(), ..ProfileSteps::default() }.check().is_ok());
    }
}
