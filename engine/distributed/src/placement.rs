//! The rank that a launcher assigned to this process: [`Placement`].

use std::collections::BTreeMap;
use std::fmt;

/// The program that started the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launcher {
    /// `hearth --hosts`, over `ssh`.
    Hearth,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// `mpirun` of MPICH (Hydra), of Intel MPI, and of others that descend from it.
    Hydra,
    /// MVAPICH2's `mpirun_rsh`.
    Mvapich,
    /// SLURM's `srun`.
    Slurm,
    /// `flux run`.
    Flux,
    /// Another launcher with a PMI interface, such as Cray's `aprun` and PALS.
    Pmi,
    /// PyTorch's `torchrun`.
    Torchrun,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Hearth => "hearth --hosts",
            Launcher::OpenMpi => "mpirun of Open MPI",
            Launcher::Hydra => "mpirun of MPICH",
            Launcher::Mvapich => "mpirun_rsh of MVAPICH2",
            Launcher::Slurm => "srun of SLURM",
            Launcher::Flux => "flux run",
            Launcher::Pmi => "a launcher with PMI",
            Launcher::Torchrun => "torchrun",
        })
    }
}

/// The rank of this process, and the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// This rank, from 0.
    pub rank: usize,
    /// The number of ranks.
    pub world: usize,
    /// The index of this rank on its host, if the launcher sets it.
    pub local_rank: Option<usize>,
    /// The program that started the ranks.
    pub launcher: Launcher,
}

/// A launcher's variable is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The variable is not a number.
    #[error("{variable}={value:?}, which {launcher} sets, is not a number")]
    Number {
        /// The variable.
        variable: &'static str,
        /// The variable's value.
        value: String,
        /// The launcher that is assumed to have set it.
        launcher: Launcher,
    },
    /// The rank is not below the number of ranks.
    #[error("{launcher} says that this is rank {rank} of {world} ({variable})")]
    Rank {
        /// The variable of the rank.
        variable: &'static str,
        /// The rank.
        rank: usize,
        /// The number of ranks.
        world: usize,
        /// The launcher that is assumed to have set it.
        launcher: Launcher,
    },
}

/// The variables of a launcher.
struct Row {
    launcher: Launcher,
    rank: &'static str,
    world: &'static str,
    local_rank: &'static str,
    /// Another variable that must be set; otherwise the variables belong to another program.
    also: Option<&'static str>,
}

/// The first row whose variables are set is used. The program's own launcher may be called by any
/// other. MPI's launchers come before SLURM: within an allocation they start their own processes through
/// it, whose variables the ranks inherit. PMI comes after SLURM, which sets PMI's variables for ranks too.
/// `torchrun`'s names are the most common ones, so all three must be set.
const ROWS: [Row; 8] = [
    Row {
        launcher: Launcher::Hearth,
        rank: "HEARTH_RANK",
        world: "HEARTH_WORLD_SIZE",
        local_rank: "HEARTH_LOCAL_RANK",
        also: Some("HEARTH_LOCAL_RANK"),
    },
    Row {
        launcher: Launcher::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        world: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        also: None,
    },
    Row {
        launcher: Launcher::Mvapich,
        rank: "MV2_COMM_WORLD_RANK",
        world: "MV2_COMM_WORLD_SIZE",
        local_rank: "MV2_COMM_WORLD_LOCAL_RANK",
        also: None,
    },
    Row {
        launcher: Launcher::Hydra,
        rank: "PMI_RANK",
        world: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        also: Some("MPI_LOCALRANKID"),
    },
    Row {
        launcher: Launcher::Slurm,
        rank: "SLURM_PROCID",
        world: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        also: Some("SLURM_STEP_ID"),
    },
    Row {
        launcher: Launcher::Flux,
        rank: "FLUX_TASK_RANK",
        world: "FLUX_JOB_SIZE",
        local_rank: "FLUX_TASK_LOCAL_ID",
        also: None,
    },
    Row { launcher: Launcher::Pmi, rank: "PMI_RANK", world: "PMI_SIZE", local_rank: "PALS_LOCAL_RANKID", also: None },
    Row {
        launcher: Launcher::Torchrun,
        rank: "RANK",
        world: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        also: Some("LOCAL_RANK"),
    },
];

/// The lowest number of SLURM's own steps. The shell of `salloc` and the script of `sbatch` are
/// such steps, not ranks.
const SLURM_OWN_STEPS: u64 = 0xffff_fff0;

impl Placement {
    /// The placement that these environment variables describe; `None` if no launcher set any, so
    /// that this process is the only one.
    ///
    /// # Errors
    /// If a launcher's variable is not a number, or the rank is not below the number of ranks.
    pub fn of(variables: &BTreeMap<String, String>) -> Result<Option<Self>, PlacementError> {
        let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let row = ROWS.iter().find(|row| {
            set(row.rank).is_some()
                && set(row.world).is_some()
                && row.also.is_none_or(|name| set(name).is_some())
                && !(row.launcher == Launcher::Slurm && is_no_step(set("SLURM_STEP_ID")))
        });
        let Some(row) = row else { return Ok(None) };
        let launcher = row.launcher;
        let number = |variable: &'static str| {
            let Some(value) = set(variable) else { return Ok(None) };
            let parsed = value.trim().parse::<usize>();
            let wrong = |_| PlacementError::Number { variable, value: value.clone(), launcher };
            parsed.map(Some).map_err(wrong)
        };
        let (rank, world) = (number(row.rank)?.unwrap_or(0), number(row.world)?.unwrap_or(1));
        if rank >= world {
            return Err(PlacementError::Rank { variable: row.rank, rank, world, launcher });
        }
        Ok(Some(Placement { rank, world, local_rank: number(row.local_rank)?, launcher }))
    }

    /// [`Placement::of`] for the variables of this process.
    ///
    /// # Errors
    /// As [`Placement::of`].
    pub fn from_environment() -> Result<Option<Self>, PlacementError> {
        Placement::of(&variables())
    }
}

fn is_no_step(step: Option<&String>) -> bool {
    step.and_then(|step| step.trim().parse::<u64>().ok()).is_some_and(|step| step >= SLURM_OWN_STEPS)
}

/// The environment variables of this process. Variables that are not Unicode are skipped: launchers
/// set none.
pub fn variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &str) -> Result<Option<Placement>, PlacementError> {
        let pairs = variables.split_whitespace().filter_map(|pair| pair.split_once('='));
        Placement::of(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn each_launcher_is_recognized() {
        let cases = [
            ("HEARTH_RANK=3 HEARTH_WORLD_SIZE=8 HEARTH_LOCAL_RANK=1 PMI_RANK=0 PMI_SIZE=1", Launcher::Hearth),
            ("OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1", Launcher::OpenMpi),
            ("PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", Launcher::Hydra),
            ("MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=1", Launcher::Mvapich),
            ("SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=0 SLURM_NTASKS=9", Launcher::Slurm),
            (
                "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 SLURM_STEP_ID=2 PMI_RANK=3 PMI_SIZE=8",
                Launcher::Slurm,
            ),
            ("FLUX_TASK_RANK=3 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=1 PMI_RANK=3 PMI_SIZE=8", Launcher::Flux),
            ("PMI_RANK=3 PMI_SIZE=8 PALS_LOCAL_RANKID=1", Launcher::Pmi),
            ("RANK=3 WORLD_SIZE=8 LOCAL_RANK=1", Launcher::Torchrun),
            // Within an allocation of SLURM: `mpirun` starts one process of its own for each node.
            (
                "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 SLURM_PROCID=0 \
                 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0",
                Launcher::OpenMpi,
            ),
            (
                "PMI_RANK=3 PMI_SIZE=8 MPI_LOCALRANKID=1 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0",
                Launcher::Hydra,
            ),
        ];
        for (variables, launcher) in cases {
            let expected = Placement { rank: 3, world: 8, local_rank: Some(1), launcher };
            assert_eq!(of(variables), Ok(Some(expected)), "{variables}");
        }
        let without = of("PMI_RANK=1 PMI_SIZE=2").expect("sound").expect("a launcher");
        assert_eq!((without.local_rank, without.launcher), (None, Launcher::Pmi));
    }

    #[test]
    fn a_process_that_is_alone_has_no_placement() {
        let alone = [
            "",
            // The script of `sbatch`, and the shell of `salloc`.
            "SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0",
            "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_LOCALID=0 SLURM_STEP_ID=4294967290",
            "RANK=3 WORLD_SIZE=8",
            "OMPI_COMM_WORLD_RANK=",
        ];
        for variables in alone {
            assert_eq!(of(variables), Ok(None), "{variables}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let said = |variables: &str| of(variables).expect_err("it makes no sense").to_string();
        assert_eq!(said("RANK=one WORLD_SIZE=2 LOCAL_RANK=0"), "RANK=\"one\", which torchrun sets, is not a number");
        assert_eq!(
            said("OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2"),
            "mpirun of Open MPI says that this is rank 2 of 2 (OMPI_COMM_WORLD_RANK)"
        );
        assert!(said("RANK=0 WORLD_SIZE=-2 LOCAL_RANK=0").contains("WORLD_SIZE"));
    }
}
