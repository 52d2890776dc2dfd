//! A thread that reads a card's gradients: [`Reading`].

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use burn::tensor::Tensor;

/// Tensors are read in the order in which they come, by a thread of their own: it waits for the card,
/// while the thread of the backward pass goes on giving it work.
#[derive(Debug)]
pub(crate) struct Reading {
    /// `None` is the end.
    gradients: Sender<Option<(String, Tensor<1>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Reading {
    /// # Errors
    /// Where the system starts no more threads.
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

    /// What hands a gradient over. After the end it does nothing.
    pub fn see(&self) -> impl Fn(&str, Tensor<1>) + Send + Sync + 'static {
        let gradients = self.gradients.clone();
        move |path, gradient| {
            // Nobody listens after the end.
            let _ = gradients.send(Some((path.to_owned(), gradient)));
        }
    }

    /// Waits until all that were handed over are read.
    ///
    /// # Errors
    /// Where the thread has panicked.
    pub fn end(mut self) -> Result<(), String> {
        self.join().map_err(|()| "the thread that reads gradients has panicked".to_owned())
    }

    fn join(&mut self) -> Result<(), ()> {
        // A thread that has panicked does not listen.
        let _ = self.gradients.send(None);
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(drop))
    }
}

/// Of a step that was given up. Its gradients are not those of the next one.
impl Drop for Reading {
    fn drop(&mut self) {
        // The panic's own message has been printed.
        let _ = self.join();
    }
}
