//! Carries out the checkpoint requests of handlers: reads checkpoints, begins them, and tracks them
//! until they are written.

use std::collections::VecDeque;
use std::path::Path;

use crate::dispatch::Requests;
use crate::engine::Engine;
use crate::event::Event;
use crate::host::CheckpointRequest;
use crate::run_error::RunError;
use crate::workflow::{Workflow, Written};

/// The largest number of checkpoints written at the same time; each holds a copy of the weights.
const MOST: usize = 2;

/// A checkpoint that a workflow has begun to write.
#[derive(Debug)]
struct Begun {
    /// The handler that made the request.
    index: usize,
    event: Event,
    request: CheckpointRequest,
}

/// Checkpoints that are being written, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Saves(VecDeque<Begun>);

impl Engine {
    /// Whether checkpoints were requested or are being written.
    #[inline]
    pub(crate) fn has_to_carry_out(&self) -> bool {
        !(self.saves.0.is_empty() && self.requests.loads.is_empty() && self.requests.saves.is_empty())
    }

    /// Reads and begins to write the requested checkpoints. An error counts as an error of the
    /// handler that made the request.
    pub(crate) fn carry_out(
        &mut self,
        event: Event,
        workflow: &mut dyn Workflow,
        lenient: bool,
    ) -> Result<(), RunError> {
        if !self.has_to_carry_out() {
            return Ok(());
        }
        self.settle(workflow, MOST, false, lenient)?;
        let Requests { loads, saves, .. } = &mut self.requests;
        let (loads, saves) = (std::mem::take(loads), std::mem::take(saves));
        for (index, dir) in loads {
            // The checkpoint to read may be one that is still being written.
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

    /// Records checkpoints that are complete. With `wait`, blocks until at most `left` are still
    /// being written.
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
