//! The tasks of the Medical Segmentation Decathlon: [`decathlon`].

use std::path::Path;

use super::DownloadError;
use super::archive::{ArchiveLimits, unpack};
use super::fetch::{Checksum, FetchOptions, fetch};
use crate::{DataError, DecathlonDataset};
use hearth_registry::nearest;

/// The URL of the archives.
const BASE: &str = "https://msd-for-monai.s3-us-west-2.amazonaws.com";

/// A task that can be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecathlonTask {
    /// Name of the archive and of its folder.
    pub name: &'static str,
    /// MD5 of the archive.
    pub md5: &'static str,
}

/// All tasks.
pub const DECATHLON_TASKS: [DecathlonTask; 10] = [
    DecathlonTask { name: "Task01_BrainTumour", md5: "240a19d752f0d9e9101544901065d872" },
    DecathlonTask { name: "Task02_Heart", md5: "06ee59366e1e5124267b774dbd654057" },
    DecathlonTask { name: "Task03_Liver", md5: "a90ec6c4aa7f6a3d087205e23d4e6397" },
    DecathlonTask { name: "Task04_Hippocampus", md5: "9d24dba78a72977dbd1d2e110310f31b" },
    DecathlonTask { name: "Task05_Prostate", md5: "35138f08b1efaef89d7424d2bcc928db" },
    DecathlonTask { name: "Task06_Lung", md5: "8afd997733c7fc0432f71255ba4e52dc" },
    DecathlonTask { name: "Task07_Pancreas", md5: "4f7080cfca169fa8066d17ce6eb061e4" },
    DecathlonTask { name: "Task08_HepaticVessel", md5: "641d79e80ec66453921d997fbf12a29c" },
    DecathlonTask { name: "Task09_Spleen", md5: "410d4a301da4e5b2f6f86ec3ddba524e" },
    DecathlonTask { name: "Task10_Colon", md5: "bad7a188931dc2f6acf72b08eb6202d0" },
];

impl DecathlonTask {
    /// Finds a task by its name (`Task09_Spleen`), its number (`Task09`, `9`) or its organ
    /// (`spleen`).
    ///
    /// # Errors
    /// If there is no such task; the message lists all.
    pub fn find(name: &str) -> Result<DecathlonTask, DataError> {
        let wanted = name.to_lowercase();
        let is = |task: &&DecathlonTask| {
            let lower = task.name.to_lowercase();
            let (number, organ) = lower.split_once('_').unwrap_or((&lower, ""));
            wanted == lower
                || wanted == number
                || wanted == organ
                || wanted.parse::<u32>().is_ok_and(|n| number == format!("task{n:02}"))
        };
        DECATHLON_TASKS.iter().find(is).copied().ok_or_else(|| {
            let names = DECATHLON_TASKS.map(|t| t.name);
            let hint = nearest(name, names.iter().copied())
                .map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
            DataError::Option(format!("there is no task {name:?}, only {}{hint}", names.join(", ")))
        })
    }
}

/// Downloads a task into `dir/TASK` and opens it. An existing task is only opened.
///
/// The archive is stored next to the folder while it is unpacked, then removed, unless
/// `keep_archive`. `base` is an alternative URL of the archives.
///
/// # Errors
/// If the download fails, the archive is not the published one, or the disk is full.
pub fn decathlon(
    task: DecathlonTask,
    dir: &Path,
    base: Option<&str>,
    keep_archive: bool,
    options: &FetchOptions,
) -> Result<DecathlonDataset, DownloadError> {
    let folder = dir.join(task.name);
    let there = std::fs::read_dir(&folder).is_ok_and(|mut inside| inside.next().is_some());
    if !there {
        let archive = dir.join(format!("{}.tar", task.name));
        let url = format!("{}/{}.tar", base.unwrap_or(BASE).trim_end_matches('/'), task.name);
        fetch(&url, &archive, Some(&Checksum::Md5(task.md5.to_owned())), options)?;
        unpack(&archive, &folder, ArchiveLimits::default(), options.progress)?;
        if !keep_archive {
            std::fs::remove_file(&archive).map_err(DownloadError::io(&archive))?;
        }
    }
    DecathlonDataset::open(&folder).map_err(|error| DownloadError::Data(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_found_by_any_of_their_names() {
        for name in ["Task09_Spleen", "task09", "9", "09", "Spleen"] {
            assert_eq!(DecathlonTask::find(name).expect(name).name, "Task09_Spleen");
        }
        let error = DecathlonTask::find("Task09_Splen").expect_err("no such task").to_string();
        assert!(error.contains("did you mean \"Task09_Spleen\""), "{error}");
        assert!(DecathlonTask::find("11").is_err() && DecathlonTask::find("").is_err());
    }
}
