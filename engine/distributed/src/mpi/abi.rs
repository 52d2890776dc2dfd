//! The differences between the three interfaces of MPI: types of handles, and values of constants.

use std::ffi::{c_int, c_void};

/// A binary interface of MPI. Functions have the same names and arguments in each; the types of
/// handles and the values of constants differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// Open MPI: handles are addresses of exported objects.
    OpenMpi,
    /// MPICH, and those that keep its interface (Intel MPI, MVAPICH, Cray MPICH): handles are `int`
    /// constants.
    Mpich,
    /// The standard interface of MPI 5: handles are pointers with constant values.
    Standard,
}

/// A handle of MPI: a communicator, a type, an operation, a request.
pub(super) trait Handle: Copy + Send + 'static {}

/// MPICH's handles.
impl Handle for c_int {}

/// A handle of Open MPI or of the standard. This crate never dereferences it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Pointer(pub *mut c_void);

impl Handle for Pointer {}

// SAFETY: only the MPI library dereferences a handle. It is sent once, to the thread that owns the
// library, and used there.
unsafe impl Send for Pointer {}

/// The constants of MPI that this crate uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants<H> {
    pub world: H,
    pub byte: H,
    pub float: H,
    pub sum: H,
    pub errors_return: H,
    /// `MPI_STATUS_IGNORE`, as an address. Layouts of a status differ, so statuses are never read.
    pub status_ignore: usize,
    pub any_source: c_int,
    pub thread_funneled: c_int,
}

/// The constants of MPICH's `mpi.h`, which the MPICH ABI Compatibility Initiative fixes.
pub(super) const MPICH: Constants<c_int> = Constants {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    float: 0x4c00_040a,
    sum: 0x5800_0003,
    errors_return: 0x5400_0001,
    status_ignore: 1,
    any_source: -2,
    thread_funneled: 1,
};

/// The constants of the standard, MPI 5.0, appendix A.
pub(super) fn standard() -> Constants<Pointer> {
    let handle = |value: usize| Pointer(std::ptr::without_provenance_mut(value));
    Constants {
        world: handle(0x101),
        byte: handle(0x247),
        float: handle(0x210),
        sum: handle(0x21),
        errors_return: handle(0x142),
        status_ignore: 0,
        any_source: -1,
        thread_funneled: 1024,
    }
}

/// The constants of Open MPI: the addresses of its exported objects, looked up by `object`.
///
/// # Errors
/// As `object`.
pub(super) fn open_mpi<E>(object: impl Fn(&'static str) -> Result<Pointer, E>) -> Result<Constants<Pointer>, E> {
    Ok(Constants {
        world: object("ompi_mpi_comm_world")?,
        byte: object("ompi_mpi_byte")?,
        float: object("ompi_mpi_float")?,
        sum: object("ompi_mpi_op_sum")?,
        errors_return: object("ompi_mpi_errors_return")?,
        status_ignore: 0,
        any_source: -1,
        thread_funneled: 1,
    })
}
