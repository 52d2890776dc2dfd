//! A thread that reads gradients from a GPU: [`Reading`].

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use burn::tensor::Tensor;

/// Reads tensors in the order in which they come, in a separate thread: it waits for the GPU, while
/// the thread of the backward pass continues to submit work.
#[derive(Debug)]
pub(crate) struct Reading {
    /// `None` marks the end.
    gradients: Sender<Option<(String, Tensor<1>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// # Errors
    /// Where the system cannot start another thread.
    pub fn start(read: impl Fn(&str, Tensor<1>) + Send + 'static) -> io::Result<Self> {
        let (gradients, receiver) = channel::<Option<(String, Tensor<1>)>>();
        let work = move || {
            while let Ok(Some((path, gradient))) = receiver.recv() {
                read(&path, gradient);
            }
        };
        let thread = Builder::new().name("hearth-gradients".to_owned()).spawn(work)?;
        Ok(Self { gradients, thread: Some(thread) })
    }

    /// A function that hands over a gradient. After the end it does nothing.
    pub fn see(&self) -> impl Fn(&str, Tensor<1>) + Send + Sync + 'static {
        let gradients = self.gradients.clone();
        move |path, gradient| {
            // No thread receives after the end.
            let _ = gradients.send(Some((path.to_owned(), gradient)));
        }
    }

    /// Waits until all gradients that were handed over are read.
    ///
    /// # Errors
    /// Where the thread has panicked.
    pub fn end(mut self) -> Result<(), String> {
        self.join().map_err(|()| "the thread that reads gradients has panicked".to_owned())
    }

    fn join(&mut self) -> Result<(), ()> {
        // A thread that has panicked receives nothing.
        let _ = self.gradients.send(None);
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(drop))
    }
}

/// Ends the reading of a step that was given up. Its gradients are not used in the next one.
impl Drop for Reading {
    fn drop(&mut self) {
        // The panic's own message has been printed.
        let _ = self.join();
    }
}
