//! A component of an isolated plugin, in a process of its own: a `Component`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hearth_registry::component::{Answer, Component, HostArray, Network};

use super::process::Process;
use super::wire::{Order, Word, put_arrays, take_arrays};

/// A plugin's component in another process. Threads that call it at once take turns.
pub struct IsolatedComponent {
    process: Mutex<Process>,
    limit: Duration,
    version: String,
}

impl IsolatedComponent {
    /// The component that the process has created. `limit` is the time for a call, without that of the network.
    pub fn new(process: Process, limit: Duration, version: String) -> Self {
        Self { process: Mutex::new(process), limit, version }
    }

    fn work(
        &self,
        operation: Option<&str>,
        inputs: &[HostArray<'_>],
        text: &str,
        mut network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let hint = |over: String| match over.contains("in time") {
            true => format!("{over}: it had {} s, which `time_limit` changes", self.limit.as_secs_f64()),
            false => over,
        };
        process.allow(self.limit);
        let (operation, text) = (operation.map(str::to_owned), text.to_owned());
        let inputs = put_arrays(&mut process.shared, inputs)?;
        process.send(&Order::Work { operation, inputs, text, network: network.is_some() }).map_err(hint)?;
        loop {
            match process.receive().map_err(hint)? {
                Word::Worked(result) => {
                    let (arrays, text) = result?;
                    return Ok(Answer { arrays: take_arrays(&process.shared, arrays)?, text });
                }
                Word::Window(window) => {
                    let Some(network) = network.as_mut() else { return Err(process.distrust()) };
                    let output = take_arrays(&process.shared, vec![window])
                        .and_then(|mut windows| windows.pop().ok_or_else(|| "no window".to_owned()))
                        .and_then(network)
                        .and_then(|output| put_arrays(&mut process.shared, &[output]))
                        .and_then(|mut sent| sent.pop().ok_or_else(|| "no output".to_owned()));
                    process.send(&Order::Output(output)).map_err(hint)?;
                }
                _ => return Err(process.distrust()),
            }
        }
    }
}

impl Component for IsolatedComponent {
    fn run(&self, inputs: &[HostArray<'_>], text: &str) -> Result<Vec<HostArray<'static>>, String> {
        self.work(None, inputs, text, None).map(|answer| answer.arrays)
    }

    fn call(
        &self,
        operation: &str,
        inputs: &[HostArray<'_>],
        text: &str,
        network: Option<&mut Network<'_>>,
    ) -> Result<Answer, String> {
        self.work(Some(operation), inputs, text, network)
    }

    fn version(&self) -> String {
        self.version.clone()
    }
}
