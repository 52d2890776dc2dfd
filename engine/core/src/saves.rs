//! Carrying out what handlers asked for: checkpoints are read, begun, and looked after until they
//! are written.

use std::collections::VecDeque;
use std::path::Path;

use crate::dispatch::Requests;
use crate::engine::Engine;
use crate::event::Event;
use crate::host::CheckpointRequest;
use crate::run_error::RunError;
use crate::workflow::{Workflow, Written};

/// At most so many checkpoints are in the making; each holds a copy of the weights.
const MOST: usize = 2;

/// A checkpoint that a workflow has begun to write.
#[derive(Debug)]
struct Begun {
    /// The handler that asked.
    index: usize,
    event: Event,
    request: CheckpointRequest,
}

/// Checkpoints in the making, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Saves(VecDeque<Begun>);

impl Engine {
    /// Reads and begins to write the checkpoints that were asked for. An error is one of the
    /// handler that asked.
    pub(crate) fn carry_out(
        &mut self,
        event: Event,
        workflow: &mut dyn Workflow,
        lenient: bool,
    ) -> Result<(), RunError> {
        self.settle(workflow, MOST, false, lenient)?;
        let Requests { loads, saves, .. } = &mut self.requests;
        let (loads, saves) = (std::mem::take(loads), std::mem::take(saves));
        for (index, dir) in loads {
            // It may be the one that is being written.
            self.settle(workflow, 0, true, lenient)?;
            match workflow.read_checkpoint(&dir) {
                Ok(snapshot) => self.restore(&snapshot)?,
                Err(error) => self.judge(index, event, &error.to_string(), workflow, lenient)?,
            }
        }
        if saves.is_empty() {
            return Ok(());
        }
        let snapshot = self.snapshot();
        for (index, request) in saves {
            self.settle(workflow, MOST - 1, true, lenient)?;
            match workflow.write_checkpoint(&request, &snapshot) {
                Ok(Written::Done(folder)) => tell(&request, &folder),
                Ok(Written::Begun) => self.saves.0.push_back(Begun { index, event, request }),
                Err(error) => {
                    let text = failed(&request, &error.to_string());
                    self.judge(index, event, &text, workflow, lenient)?;
                }
            }
        }
        Ok(())
    }

    /// Takes note of checkpoints that are written; with `wait`, until no more than `left` are in
    /// the making.
    pub(crate) fn settle(
        &mut self,
        workflow: &mut dyn Workflow,
        left: usize,
        wait: bool,
        lenient: bool,
    ) -> Result<(), RunError> {
        while !self.saves.0.is_empty() {
            let Some(result) = workflow.checkpoint_written(wait && self.saves.0.len() > left) else { break };
            let Some(Begun { index, event, request }) = self.saves.0.pop_front() else { break };
            match result {
                Ok(folder) => tell(&request, &folder),
                Err(error) => {
                    let text = failed(&request, &error.to_string());
                    self.judge(index, event, &text, workflow, lenient)?;
                }
            }
        }
        Ok(())
    }
}

fn tell(request: &CheckpointRequest, folder: &Path) {
    tracing::debug!("checkpoint {} written to {}", request.tag, folder.display());
}

fn failed(request: &CheckpointRequest, why: &str) -> String {
    format!("the checkpoint `{}` could not be written to {}: {why}", request.tag, request.dir.display())
}
