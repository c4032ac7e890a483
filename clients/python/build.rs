//! Sets what the compiler knows about the Python for which it builds.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
