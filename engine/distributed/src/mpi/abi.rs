//! How the three interfaces of MPI differ: what a handle is, and the values of constants.

use std::ffi::{c_int, c_void};

/// A binary interface of MPI. Functions have the same names and arguments in each; what differs is
/// what a handle is, and which constants have which values.
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

/// The handles of Open MPI and of the standard. They are never dereferenced here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Pointer(pub *mut c_void);

impl Handle for Pointer {}

// SAFETY: a handle is a name that only the MPI library dereferences. The thread that owns the
// library uses it; it is sent there once.
unsafe impl Send for Pointer {}

/// The constants that are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants<H> {
    pub world: H,
    pub byte: H,
    pub float: H,
    pub sum: H,
    pub errors_return: H,
    /// `MPI_STATUS_IGNORE`, as an address: layouts of a status differ, so none is ever read.
    pub status_ignore: usize,
    pub any_source: c_int,
    pub thread_funneled: c_int,
}

/// Of MPICH's `mpi.h`; fixed by the MPICH ABI Compatibility Initiative.
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

/// Of the standard, MPI 5.0, appendix A.
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

/// Of Open MPI: the addresses of its exported objects, by `object`.
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
