//! The functions of MPI that this crate uses, with their arguments.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

use super::abi::Handle;

/// A table of functions: field, symbol and arguments. Each returns an error code.
macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// Functions of an MPI library. Counts are `int`s, as in MPI 3.
        pub(super) struct Functions<H> {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<H: Handle> Functions<H> {
            /// The functions of a library.
            ///
            /// # Safety
            /// The library is an MPI library whose handles are `H`, and is never unloaded.
            ///
            /// # Errors
            /// The name of the first missing function.
            pub(super) unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Functions {
                    // SAFETY: the MPI standard gives this symbol these arguments, and the caller
                    // promises that the library is one of MPI, with these handles.
                    $($field: *unsafe { library.get($symbol) }.map_err(|_| $symbol)?,)*
                })
            }
        }
    };
}

functions! {
    abort = "MPI_Abort" (H, c_int);
    comm_dup = "MPI_Comm_dup" (H, *mut H);
    comm_rank = "MPI_Comm_rank" (H, *mut c_int);
    comm_set_errhandler = "MPI_Comm_set_errhandler" (H, H);
    comm_size = "MPI_Comm_size" (H, *mut c_int);
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    finalize = "MPI_Finalize" ();
    get_library_version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    get_processor_name = "MPI_Get_processor_name" (*mut c_char, *mut c_int);
    iallgatherv = "MPI_Iallgatherv" (
        *const c_void, c_int, H, *mut c_void, *const c_int, *const c_int, H, H, *mut H
    );
    iallreduce = "MPI_Iallreduce" (*const c_void, *mut c_void, c_int, H, H, H, *mut H);
    ialltoallv = "MPI_Ialltoallv" (
        *const c_void, *const c_int, *const c_int, H, *mut c_void, *const c_int, *const c_int, H, H, *mut H
    );
    ibarrier = "MPI_Ibarrier" (H, *mut H);
    ibcast = "MPI_Ibcast" (*mut c_void, c_int, H, c_int, H, *mut H);
    igatherv = "MPI_Igatherv" (
        *const c_void, c_int, H, *mut c_void, *const c_int, *const c_int, H, c_int, H, *mut H
    );
    init_thread = "MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    iprobe = "MPI_Iprobe" (c_int, c_int, H, *mut c_int, *mut c_void);
    isend = "MPI_Isend" (*const c_void, c_int, H, c_int, c_int, H, *mut H);
    recv = "MPI_Recv" (*mut c_void, c_int, H, c_int, c_int, H, *mut c_void);
    test = "MPI_Test" (*mut H, *mut c_int, *mut c_void);
}
