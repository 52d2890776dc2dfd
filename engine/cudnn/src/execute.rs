//! Executing a plan: [`Plan::execute`].

use std::ffi::c_void;
use std::ptr;

use crate::convolution::Convolution;
use crate::error::Error;
use crate::graph::{ALIGNMENT, BIAS, FILTER, INPUT, OUTPUT};
use crate::numbers::{attribute as of, kind};
use crate::plan::{Plan, Target};
use crate::raw::Builder;

/// The addresses of the tensors on the GPU, each aligned to 16 bytes. The direction decides which is
/// written; for gradients, `input` or `output` is the gradient of that tensor.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The input, or its gradient.
    pub input: *mut c_void,
    /// The filter, or its gradient.
    pub filter: *mut c_void,
    /// The output, or its gradient.
    pub output: *mut c_void,
    /// The bias; `None` without one.
    pub bias: Option<*mut c_void>,
}

/// Memory on the GPU that an execution may overwrite.
#[derive(Clone, Copy, Debug)]
pub struct Workspace {
    /// Its address, aligned to 16 bytes; null if it has no bytes.
    pub address: *mut c_void,
    /// Its size.
    pub bytes: u64,
}

impl Workspace {
    /// No memory.
    pub const NONE: Workspace = Workspace { address: ptr::null_mut(), bytes: 0 };
}

/// Checks an address.
fn checked(operand: &'static str, address: *mut c_void) -> Result<*mut c_void, Error> {
    let number = address.addr();
    match number != 0 && number.is_multiple_of(ALIGNMENT) {
        true => Ok(address),
        false => {
            Err(Error::Address { operand, address: number, expected: "an address on the GPU, aligned to 16 bytes" })
        }
    }
}

/// The numbers and addresses of the tensors.
fn addresses(convolution: &Convolution, operands: &Operands) -> Result<(Vec<i64>, Vec<*mut c_void>), Error> {
    let named = [
        (INPUT, "the input", operands.input),
        (FILTER, "the filter", operands.filter),
        (OUTPUT, "the output", operands.output),
    ];
    let (mut numbers, mut addresses) = (Vec::new(), Vec::new());
    for (number, name, address) in named {
        numbers.push(number);
        addresses.push(checked(name, address)?);
    }
    match (convolution.epilogue.is_some_and(|epilogue| epilogue.bias), operands.bias) {
        (true, address) => {
            numbers.push(BIAS);
            addresses.push(checked("the bias", address.unwrap_or(ptr::null_mut()))?);
        }
        (false, Some(address)) => {
            let expected = "none, because the convolution has no bias";
            return Err(Error::Address { operand: "the bias", address: address.addr(), expected });
        }
        (false, None) => {}
    }
    Ok((numbers, addresses))
}

impl Plan {
    /// Queues the convolution on a stream, without waiting for it. The call can be captured in a
    /// graph.
    ///
    /// # Safety
    /// - The GPU of the plan's handle is current in this thread, and the stream belongs to it (null
    ///   is its default stream).
    /// - Each tensor has the elements of the plan's convolution in its layout at its address on that
    ///   GPU, without gaps. The result (`output` forward, `input` for the gradient of data, `filter`
    ///   for the gradient of the filter) may be written, and overlaps no other tensor.
    /// - The workspace has its bytes there, and overlaps no tensor.
    /// - Until the work is complete, nothing else writes the tensors, reads the result or uses the
    ///   workspace, and nothing frees them.
    ///
    /// # Errors
    /// If the plan was made without a GPU, an address or the workspace does not suit it, or the
    /// library reports an error.
    pub unsafe fn execute(&self, stream: *mut c_void, operands: &Operands, workspace: Workspace) -> Result<(), Error> {
        let Target::Gpu(handle) = &self.target else {
            return Err(Error::NotExecutable { gpu: self.target.gpu().to_owned() });
        };
        let needed = self.workspace_bytes();
        if workspace.bytes < needed {
            return Err(Error::Workspace { needed, given: workspace.bytes });
        }
        let workspace = match needed {
            0 => ptr::null_mut(),
            _ => checked("the workspace", workspace.address)?,
        };
        let (numbers, addresses) = addresses(&self.convolution, operands)?;
        let pack = Builder::new(handle.library(), kind::VARIANT_PACK)?
            .set(of::VARIANT_PACK_UNIQUE_IDS, &numbers)?
            .set_pointers(of::VARIANT_PACK_DATA_POINTERS, &addresses)?
            .set_pointers(of::VARIANT_PACK_WORKSPACE, &[workspace])?
            .finalize()?;
        // SAFETY: both descriptors are finalized, the plan was made with the handle of its target,
        // and the caller promises the addresses and the stream.
        unsafe { handle.execute(stream, &self.descriptor, &pack) }
    }
}
