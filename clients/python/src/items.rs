//! Items of Python, as bytes.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyFloat, PyInt, PyMemoryView, PyString};

/// How the client of the program encodes text.
pub(crate) struct Encoder {
    /// The encoding and what is done with characters that it lacks; `None` for UTF-8 and an error.
    text: Option<(String, String)>,
}

impl Encoder {
    pub(crate) fn new(encoding: &str, errors: &str) -> Self {
        let is_default =
            matches!(encoding.to_ascii_lowercase().as_str(), "utf-8" | "utf8") && errors == "strict";
        Self { text: (!is_default).then(|| (encoding.to_owned(), errors.to_owned())) }
    }

    /// Returns an item as bytes, as redis-py and valkey-py encode arguments.
    ///
    /// # Errors
    /// TypeError if it is not one of bytes, str, int and float; UnicodeEncodeError.
    pub(crate) fn encode<'py>(&self, item: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        if let Ok(bytes) = item.cast::<PyBytes>() {
            return Ok(bytes.clone());
        }
        if let Ok(text) = item.cast::<PyString>() {
            return match &self.text {
                None => text.encode_utf8(),
                Some((encoding, errors)) => {
                    Ok(text.call_method1("encode", (encoding, errors))?.cast_into::<PyBytes>()?)
                }
            };
        }
        let is_number = item.is_instance_of::<PyInt>() || item.is_instance_of::<PyFloat>();
        // As for these clients: a bool is an int in Python, and its text is no number.
        if is_number && !item.is_instance_of::<pyo3::types::PyBool>() {
            return item.repr()?.encode_utf8();
        }
        let kind = item.get_type().name()?;
        Err(PyTypeError::new_err(format!("an item must be bytes, str, int or float, not {kind}")))
    }

    /// Returns the items of an iterable as bytes.
    ///
    /// # Errors
    /// As [`encode`](Self::encode). TypeError also for one item in place of an iterable of items.
    pub(crate) fn encode_all<'py>(&self, items: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let is_one = items.is_instance_of::<PyString>()
            || items.is_instance_of::<PyBytes>()
            || items.is_instance_of::<PyByteArray>()
            || items.is_instance_of::<PyMemoryView>();
        if is_one {
            return Err(PyTypeError::new_err("items must be an iterable of items, not one item"));
        }
        items.try_iter()?.map(|item| self.encode(&item?)).collect()
    }
}
