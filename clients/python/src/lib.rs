//! The extension of the Python package everbloom: a copy of a server's filter, without I/O. The package sends the
//! commands and passes the replies.

mod items;
mod near;

use pyo3::prelude::*;

#[cfg(Py_GIL_DISABLED)]
compile_error!(
    "everbloom needs a Python with the global interpreter lock: a free-threaded one is not supported"
);

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    near::watch_forks()?;
    module.add_class::<near::Copy>()?;
    module.add_class::<near::Steps>()
}
